"""Every Arrow type passes through a run untouched: values, nullability, metadata."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_support import ROOT, demo_rows, tiny, write_job
from every_type import ROWS, every_type

NOT_UTF8 = "string that is not UTF-8"


def bits(column):
    """The column with its floats as whole numbers, so that NaN equals the same NaN."""
    kind = column.type
    if pa.types.is_floating(kind):
        return column.view(f"uint{kind.bit_width}")
    if pa.types.is_list(kind) and pa.types.is_floating(kind.value_type):
        return bits(column.flatten())
    return column.view(pa.binary()) if pa.types.is_string(kind) else column


def same(left, right):
    left, right = left.combine_chunks(), right.combine_chunks()
    assert left.type == right.type
    return bits(left).equals(bits(right)) and left.is_null().equals(right.is_null())


@pytest.fixture(scope="module")
def run(tmp_path_factory, quick_in):
    folder = tmp_path_factory.mktemp("types")
    columns = every_type()
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    extra = pa.field("required", pa.int8(), nullable=False, metadata={"unit": "none", "": "\0"})
    unknown = {"ARROW:extension:name": "acme.thing", "ARROW:extension:metadata": "x"}
    schema = pa.schema(
        [
            *fields,
            extra,
            pa.field("unknown", pa.int8(), metadata=unknown),
            pa.field("text", pa.string(), nullable=False),
        ],
        metadata={"owner": "me", b"raw": b"\xff\0"},
    )
    arrays = [*columns.values(), *[pa.array(range(ROWS), pa.int8())] * 2, demo_rows(ROWS)["text"]]
    table = pa.Table.from_arrays([*arrays[:-1], arrays[-1].combine_chunks()], schema=schema)
    job = write_job(folder, table, model=tiny(), row_group_size=2)
    done = quick_in(folder).run(job, "--set", "shards.target_rows=4")
    assert done.rc == 0, done.stderr
    parts = [pq.read_table(file) for file in sorted((folder / "out").glob("*.parquet"))]
    assert [part.num_rows for part in parts] == [4, 2]
    return table, pa.concat_tables(parts), pq.read_table(folder / "in.parquet")


@pytest.mark.parametrize("name", every_type())
def test_a_column_of_this_type_comes_out_bit_equal(run, name):
    given, out, _ = run  # as it went in, not as Parquet gave it back: the input is no excuse
    assert same(given.column(name), out.column(name))


def test_nullability_and_metadata_come_out_as_the_input_file_has_them(run):
    given, out, read = run
    passed = out.select(read.column_names).schema
    assert passed.equals(read.schema, check_metadata=True)
    assert out.schema.field("unknown").metadata[b"ARROW:extension:name"] == b"acme.thing"
    assert out.schema.metadata == given.schema.metadata
    assert not out.schema.field("required").nullable
    assert out.schema.field("required").metadata.items() >= {b"unit": b"none", b"": b"\0"}.items()


def test_the_table_in_the_docs_names_every_type():
    page = (ROOT / "docs/inputs.md").read_text()
    section = page.partition("## Types")[2].partition("\n## ")[0]
    listed = {name for line in section.splitlines() for name in re.findall(r"^\| `([^`]+)`", line)}
    assert listed == set(every_type())
