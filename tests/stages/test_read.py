import datetime as dt
import decimal
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.job import InputSpec
from headrace.schemas.plan import Slice
from headrace.stages.parquet_file import BATCH_ROWS
from headrace.stages.read import Source, read_slices, stored_bytes

ROWS = 50


def source(folder, schema=None, **options):
    spec = InputSpec(path=str(folder), text="text", **options)
    return Source(folder, spec, pa.schema([]) if schema is None else schema)


def every_kind(rows=ROWS):
    """Make columns of the kinds that are easily spoilt on the way, each with nulls."""

    def column(make, kind):
        return pa.array([None if at % 7 == 3 else make(at) for at in range(rows)], kind)

    utc = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "text": column(lambda at: f"text {at}", pa.string()),
            "large": column(lambda at: f"large {at}", pa.large_string()),
            "view": column(lambda at: f"a view that is not inlined {at}", pa.string_view()),
            "kind": column(lambda at: "abc"[at % 3], pa.string())
            .dictionary_encode()
            .cast(pa.dictionary(pa.int8(), pa.string())),
            "big": column(lambda at: 2**53 + 1 + at, pa.int64()),
            "unsigned": column(lambda at: 2**64 - 1 - at, pa.uint64()),
            "price": column(lambda at: decimal.Decimal(at) / 100, pa.decimal128(9, 2)),
            "at": column(
                lambda at: utc + dt.timedelta(microseconds=at), pa.timestamp("us", "Asia/Tokyo")
            ),
            "nanos": column(lambda at: at, pa.timestamp("ns")),
            "day": column(lambda at: at, pa.date32()),
            "bits": column(lambda at: at % 2 == 0, pa.bool_()),
            "real": column(lambda at: at / 3, pa.float32()),
            "bytes": column(lambda at: bytes([at, 255]), pa.binary()),
            "fixed": column(lambda at: bytes([at, 1]), pa.binary(2)),
            "tags": column(lambda at: [[f"{at}", None], [], None], pa.list_(pa.list_(pa.string()))),
            "pair": column(
                lambda at: {"a": at, "b": {"c": [at]}},
                pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.list_(pa.int64()))]))]),
            ),
            "map": column(lambda at: [("k", at)], pa.map_(pa.string(), pa.int32())),
            "vector": column(lambda at: [at, 0.5], pa.list_(pa.float32(), 2)),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    schema = every_kind().schema.with_metadata({"owner": "me"})
    at = schema.get_field_index("big")
    schema = schema.set(at, schema.field(at).with_metadata({"unit": "none"}))
    pq.write_table(every_kind().cast(schema), folder / "a.parquet", row_group_size=20)
    return folder


def schema_of(file):
    return pq.read_metadata(file).schema.to_arrow_schema()


def same(left, right):
    """Bit-equal in type, nulls and values, whatever the chunks."""
    left.validate(full=True)
    assert left.schema.equals(right.schema, check_metadata=True)
    assert left.num_rows == right.num_rows
    for name in right.column_names:
        assert left.column(name).equals(right.column(name)), name


def test_whole_row_groups_are_read_bit_equal(folder):
    file = folder / "a.parquet"
    pieces = [Slice("a.parquet", at, 0, rows) for at, rows in enumerate((20, 20, 10))]
    table = read_slices(source(folder, schema_of(file)), pieces, every_kind().column_names)
    same(table, pq.ParquetFile(file).read())
    assert table.schema.metadata[b"owner"] == b"me"
    assert table.schema.field("big").metadata[b"unit"] == b"none"
    assert table.column("big").to_pylist()[:2] == [2**53 + 1, 2**53 + 2]


@pytest.mark.parametrize(("group", "start", "rows"), [(0, 0, 7), (0, 7, 13), (1, 19, 1), (2, 3, 4)])
def test_a_cut_row_group_equals_that_slice_of_the_file(folder, group, start, rows):
    file = folder / "a.parquet"
    piece = Slice("a.parquet", group, start, rows)
    table = read_slices(source(folder, schema_of(file)), [piece], every_kind().column_names)
    same(table, pq.ParquetFile(file).read().slice(20 * group + start, rows))


def test_a_cut_may_span_many_batches(tmp_path):
    rows = 2 * BATCH_ROWS + 100
    whole = pa.table({"n": range(rows), "kind": [f"{at % 900}" for at in range(rows)]})
    whole = whole.set_column(1, "kind", whole["kind"].combine_chunks().dictionary_encode())
    pq.write_table(whole, tmp_path / "a.parquet", row_group_size=rows)
    for start, count in ((BATCH_ROWS - 5, BATCH_ROWS + 10), (BATCH_ROWS, 50), (rows - 1, 1)):
        piece = Slice("a.parquet", 0, start, count)
        table = read_slices(source(tmp_path, whole.schema), [piece], ["n", "kind"])
        assert table.column("n").to_pylist() == list(range(start, start + count))
        assert table.column("kind").cast(pa.string()).to_pylist() == [
            f"{at % 900}" for at in range(start, start + count)
        ]


@given(
    cuts=st.lists(st.integers(1, ROWS - 1), unique=True, max_size=6).map(sorted),
)
def test_any_cut_concatenates_to_the_whole(folder, cuts):
    file = folder / "a.parquet"
    edges = sorted({0, *cuts, 20, 40, ROWS})
    pieces = [
        Slice("a.parquet", start // 20, start % 20, end - start) for start, end in pairwise(edges)
    ]
    columns = ["big", "text", "kind", "tags"]
    table = read_slices(source(folder, schema_of(file)), pieces, columns)
    same(table, pq.ParquetFile(file).read(columns=columns).select(columns))


def test_columns_come_in_the_order_that_was_asked_for(folder):
    piece = Slice("a.parquet", 0, 0, 20)
    table = read_slices(source(folder, schema_of(folder / "a.parquet")), [piece], ["price", "text"])
    assert table.column_names == ["price", "text"]


@pytest.fixture
def mixed(tmp_path):
    """Make files that hold a column typed, as all null, and not at all."""
    kinds = {"full": {"n": pa.array([1, 2], pa.int16())}, "null": {"n": pa.nulls(2)}, "none": {}}
    for name, more in kinds.items():
        pq.write_table(pa.table({"text": [name, name], **more}), tmp_path / f"{name}.parquet")
    return tmp_path, pa.schema([("text", pa.string()), ("n", pa.int16())])


def test_a_column_that_a_file_lacks_is_null_there(mixed):
    folder, schema = mixed
    pieces = [Slice(f"{name}.parquet", 0, 0, 2) for name in ("full", "null", "none")]
    table = read_slices(source(folder, schema), pieces, ["text", "n"])
    table.validate(full=True)
    assert table.schema == schema
    assert table.column("n").to_pylist() == [1, 2, None, None, None, None]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_file_without_any_of_the_columns_still_has_its_rows(mixed, rows):
    folder, schema = mixed
    table = read_slices(source(folder, schema), [Slice("none.parquet", 0, 0, rows)], ["n"])
    assert table.column("n").to_pylist() == [None] * rows


@pytest.mark.parametrize("rows", [1, 3])
def test_hive_values_stay_text(tmp_path, rows):
    place = tmp_path / "year=2024" / "day=01"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"text": ["a", "b", "c"]}), place / "a.parquet")
    schema = pa.schema([("text", pa.string()), ("year", pa.string()), ("day", pa.string())])
    piece = Slice("year=2024/day=01/a.parquet", 0, 0, rows)
    table = read_slices(source(tmp_path, schema), [piece], ["text", "day", "year"])
    assert table.to_pylist()[0] == {"text": "a", "day": "01", "year": "2024"}
    assert table.num_rows == rows
    only = read_slices(source(tmp_path, schema), [piece], ["day"])
    assert only.column("day").to_pylist() == ["01"] * rows


def test_a_file_outside_the_hive_folders_has_nulls_there(tmp_path):
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "a.parquet")
    schema = pa.schema([("text", pa.string()), ("day", pa.string())])
    table = read_slices(source(tmp_path, schema), [Slice("a.parquet", 0, 0, 1)], ["text", "day"])
    assert table.column("day").to_pylist() == [None]


def test_no_slice_gives_no_row_and_the_whole_schema(folder):
    schema = schema_of(folder / "a.parquet")
    table = read_slices(source(folder, schema), [], schema.names)
    assert table.num_rows == 0
    assert table.schema.equals(schema, check_metadata=True)


def test_a_column_with_a_dot_in_its_name_is_read_alone(tmp_path):
    table = pa.table({"user": [1, 2], "user.name": ["a", "b"], "text": ["x", "y"]})
    pq.write_table(table, tmp_path / "a.parquet")
    for rows in (1, 2):
        piece = Slice("a.parquet", 0, 0, rows)
        got = read_slices(source(tmp_path, table.schema), [piece], ["user.name", "user"])
        assert got.to_pylist() == table.select(["user.name", "user"]).slice(0, rows).to_pylist()


def chunk_sizes(file, group=0):
    metadata = pq.read_metadata(file).row_group(group)
    chunks = [metadata.column(at) for at in range(metadata.num_columns)]
    return {chunk.path_in_schema: chunk.total_compressed_size for chunk in chunks}


def test_stored_bytes_are_those_of_the_columns_as_they_lie(folder):
    sizes = chunk_sizes(folder / "a.parquet")
    piece = Slice("a.parquet", 0, 0, 20)
    assert stored_bytes(source(folder), [piece], ["big"]) == sizes["big"]
    nested = sum(size for path, size in sizes.items() if path.startswith("pair."))
    assert stored_bytes(source(folder), [piece], ["pair", "big"]) == nested + sizes["big"]
    assert stored_bytes(source(folder), [piece], every_kind().column_names) == sum(sizes.values())
    half = Slice("a.parquet", 0, 5, 10)
    assert stored_bytes(source(folder), [half, half], ["big"]) == 2 * (sizes["big"] // 2)
    assert stored_bytes(source(folder), [], ["big"]) == 0


def test_stored_bytes_know_a_column_with_a_dot_in_its_name(tmp_path):
    pq.write_table(pa.table({"user": [1], "user.name": ["a"]}), tmp_path / "a.parquet")
    sizes = chunk_sizes(tmp_path / "a.parquet")
    piece = Slice("a.parquet", 0, 0, 1)
    assert stored_bytes(source(tmp_path), [piece], ["user.name"]) == sizes["user.name"]
    assert stored_bytes(source(tmp_path), [piece], ["user"]) == sizes["user"]


def test_columns_take_the_dataset_s_wider_types(tmp_path):
    narrow = pa.table(
        {
            "n": pa.array([1, None], pa.int32()),
            "text": pa.array(["a", None]).dictionary_encode(),
            "pair": pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())])),
        }
    )
    pq.write_table(narrow, tmp_path / "a.parquet")
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("text", pa.large_string()),
            ("pair", pa.struct([("b", pa.string()), ("a", pa.int16())])),
        ]
    )
    table = read_slices(source(tmp_path, schema), [Slice("a.parquet", 0, 0, 2)], schema.names)
    table.validate(full=True)
    assert table.schema == schema
    assert table.to_pydict() == {
        "n": [1, None],
        "text": ["a", None],
        "pair": [{"b": None, "a": 1}, None],
    }


def test_hive_values_are_decoded_text_or_null(tmp_path):
    folders = ["day=01/to=a%2Fb", "day=__HIVE_DEFAULT_PARTITION__/to=50%25"]
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
        pq.write_table(pa.table({"n": [1]}), tmp_path / folder / "a.parquet")
    schema = pa.schema([("n", pa.int64()), ("day", pa.string()), ("to", pa.string())])
    pieces = [Slice(f"{folder}/a.parquet", 0, 0, 1) for folder in folders]
    table = read_slices(source(tmp_path, schema), pieces, ["day", "to"])
    assert table.to_pydict() == {"day": ["01", None], "to": ["a/b", "50%"]}
