import resource

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schemas.report import Rows
from headrace.stages.encode import ROW_GROUP_ROWS, encode
from headrace.stages.holding import read_footer_report


@pytest.fixture
def table():
    pair = pa.struct([("label", pa.string()), ("score", pa.float32())])
    pairs = pa.list_(pa.field("element", pair))
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(np.arange(12, dtype=np.float32)),
        type=pa.list_(pa.field("element", pa.float32()), 4),
    )
    return pa.table(
        {
            "text": ["a", "b", None],
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
            "pair": [{"a": 1, "b": ["c"]}, None, {"a": 2, "b": []}],
            "embedding": vectors,
            "top": pa.array([[{"label": "x", "score": 0.5}], None, []], pairs),
            "headrace_error": pa.array([None, "null input", None]),
        }
    ).replace_schema_metadata({"owner": "me"})


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "none"])
def test_what_is_encoded_is_read_back_whole(tmp_path, table, make_report, compression):
    file = encode(table, tmp_path, compression, make_report())
    assert list(tmp_path.iterdir()) == [file]
    back = pq.ParquetFile(file, page_checksum_verification=True).read()
    assert back.equals(table)
    assert pq.read_table(file).schema.metadata == {b"owner": b"me"}
    chunk = pq.read_metadata(file).row_group(0).column(0)
    assert chunk.compression == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())


def test_the_report_is_in_the_footer_and_not_in_the_schema(tmp_path, table, make_report):
    report = make_report(rows=Rows(in_=3, good=2, null=1), price=None)
    file = encode(table, tmp_path, "zstd", report)
    assert read_footer_report(file) == report
    assert pq.read_schema(file).metadata == {b"owner": b"me"}
    bare = encode(table.replace_schema_metadata(None), tmp_path, "zstd", report)
    assert pq.read_table(bare).schema.metadata is None


def test_only_vectors_have_no_dictionary(tmp_path, table, make_report):
    group = pq.read_metadata(encode(table, tmp_path, "zstd", make_report())).row_group(0)
    with_dictionary = {
        group.column(at).path_in_schema: group.column(at).has_dictionary_page
        for at in range(group.num_columns)
    }
    plain = {path for path, has in with_dictionary.items() if not has}
    assert plain == {"embedding.list.element"}
    assert {"text", "kind", "headrace_error", "top.list.element.label"} <= set(with_dictionary)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_a_vector_is_known_by_its_type(tmp_path, make_report, kind):
    """Whatever its name: also one that came with the input."""
    columns = {
        "v": pa.array([[1.0, 2.0], None], pa.list_(kind, 2)),
        "v.list": pa.array(["a", "a"]),
        "ids": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
    }
    group = pq.read_metadata(encode(pa.table(columns), tmp_path, "zstd", make_report())).row_group(
        0
    )
    found = [group.column(at) for at in range(group.num_columns)]
    assert [(each.path_in_schema, each.has_dictionary_page) for each in found] == [
        ("v.list.item", False),
        ("v.list", True),
        ("ids.list.item", True),
    ]


@pytest.mark.parametrize("name", ["item", "element", "array", "bag.element"])
def test_a_lists_inner_name_stays_as_it_is(tmp_path, make_report, name):
    kind = pa.list_(pa.field(name, pa.struct([("deep", pa.list_(pa.field(name, pa.int8())))])))
    table = pa.table({"tags": pa.array([[{"deep": [1]}], None], kind)})
    back = pq.read_table(encode(table, tmp_path, "zstd", make_report()))
    assert back.schema.field("tags").type.value_field.name == name
    assert back.schema.equals(table.schema, check_metadata=True)
    assert back.equals(table)


def test_every_page_has_a_checksum(tmp_path, make_report):
    table = pa.table({"n": range(1_000), "headrace_error": pa.nulls(1_000, pa.string())})
    file = encode(table, tmp_path, "none", make_report())
    whole = bytearray(file.read_bytes())
    at = whole.index((500).to_bytes(8, "little"))
    whole[at] ^= 1
    file.write_bytes(whole)
    pq.ParquetFile(file).read()  # the flip goes unseen without checksums
    with pytest.raises(OSError, match=r"(?i)crc|checksum"):
        pq.ParquetFile(file, page_checksum_verification=True).read()


def test_a_shard_without_rows_can_be_encoded(tmp_path, table, make_report):
    file = encode(table.slice(0, 0), tmp_path, "zstd", make_report())
    back = pq.read_table(file)
    assert back.num_rows == 0
    assert back.schema.equals(table.schema)


def test_row_groups_are_bounded(tmp_path, make_report):
    rows = ROW_GROUP_ROWS + 10
    table = pa.table(
        {"n": pa.nulls(rows, pa.int8()), "headrace_error": pa.nulls(rows, pa.string())}
    )
    metadata = pq.read_metadata(encode(table, tmp_path, "zstd", make_report()))
    assert [metadata.row_group(at).num_rows for at in range(2)] == [ROW_GROUP_ROWS, 10]


def test_a_full_disk_leaves_nothing_behind(tmp_path, make_report):
    table = pa.table({"n": np.random.default_rng(0).integers(0, 2**62, 100_000)})
    table = table.append_column("headrace_error", pa.nulls(100_000, pa.string()))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, hard))
    try:
        with pytest.raises(OSError):  # noqa: PT011 - its text is the system's
            encode(table, tmp_path, "none", make_report())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []
