import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_support import FOREIGN

from headrace.schemas.errors import ShardError
from headrace.schemas.plan import Slice
from headrace.stages.int96 import FIRST_S, LAST_S, int96_columns, refuse_far_times
from headrace.stages.parquet_file import read_parquet

YEARS = FOREIGN / "spark-3.5-int96-years.parquet"  # 1, 1582, 1677, 2024, 2262, 9999


def read(file, columns, start=0, rows=6):
    return pa.concat_tables(read_parquet(file, Slice(file.name, 0, start, rows), columns))


@pytest.mark.parametrize(("start", "rows"), [(0, 6), (0, 1), (2, 1), (5, 1)])
def test_years_that_nanoseconds_can_not_hold_are_refused_by_name(start, rows):
    with pytest.raises(ShardError) as caught:
        read(YEARS, ["id", "at"], start, rows)
    assert str(caught.value) == (
        f"{YEARS}, row group 0: column 'at' has INT96 timestamps before 1677-09-21 or after "
        "2262-04-11, which nanoseconds can't hold. Write the file anew with timestamps of "
        "microseconds, or leave the column out of output.columns"
    )


def test_the_other_years_and_the_other_columns_are_read():
    table = read(YEARS, ["at", "id"], 3, 2)
    assert table["at"].type == pa.timestamp("ns")
    assert table["at"].cast(pa.timestamp("us")).to_pylist() == [
        dt.datetime(2024, 1, 1),  # noqa: DTZ001 - INT96 has no zone
        dt.datetime(2262, 1, 1),  # noqa: DTZ001
    ]
    assert read(YEARS, ["id"])["id"].to_pylist() == list(range(6))


KINDS = {
    "plain": (pa.timestamp("s"), lambda at: at),
    "list": (pa.list_(pa.timestamp("s")), lambda at: [None, at]),
    "struct": (pa.struct([("a", pa.timestamp("s")), ("b", pa.int8())]), lambda at: {"a": at}),
    "map": (pa.map_(pa.string(), pa.list_(pa.timestamp("s"))), lambda at: [("k", [at])]),
}


@pytest.mark.parametrize(("kind", "wrap"), KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    ("value", "fine"), [(FIRST_S, True), (LAST_S, True), (FIRST_S - 1, False), (LAST_S + 1, False)]
)
def test_times_are_found_however_deep_they_lie(kind, wrap, value, fine):
    table = pa.table({"id": pa.array([1, 2]), "t": pa.array([wrap(value), None], kind)})
    if fine:
        refuse_far_times(table, "here")
    else:
        with pytest.raises(ShardError, match="here: column 't'"):
            refuse_far_times(table, "here")


def test_nulls_alone_are_fine():
    refuse_far_times(pa.table({"t": pa.nulls(3, pa.timestamp("s"))}), "here")
    refuse_far_times(pa.table({"t": pa.array([], pa.timestamp("s"))}), "here")


@pytest.mark.parametrize("edge", [FIRST_S, LAST_S])
def test_the_edges_are_where_pyarrow_itself_goes_wrong(tmp_path, edge):
    """A whole second inside, pyarrow's nanoseconds are still right."""
    at = pa.array([edge]).cast(pa.timestamp("s"))
    file = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"at": at.cast(pa.timestamp("ns"))}), file, use_deprecated_int96_timestamps=True
    )
    assert read(file, ["at"], rows=1)["at"].cast(pa.timestamp("s")).to_pylist() == at.to_pylist()


def test_a_column_whose_name_begins_another_is_not_it(tmp_path):
    at = pa.array([0], pa.timestamp("ns"))
    table = pa.table({"at": at, "at.2": [1], "a": [1], "t": [{"at": 1}]})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    with pq.ParquetFile(tmp_path / "a.parquet") as file:
        assert int96_columns(file, table.column_names) == ["at"]
        assert int96_columns(file, ["a", "t"]) == []


def test_lists_of_old_timestamps_in_a_file_are_looked_into(tmp_path):
    """Real INT96 in a list, all of it fine: it comes out as pyarrow reads it."""
    at = pa.array([[0, 10**18], None], pa.list_(pa.timestamp("ns")))
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"at": at}), file, use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(file).schema.column(0).physical_type == "INT96"
    assert read(file, ["at"], rows=2)["at"].to_pylist() == at.to_pylist()
