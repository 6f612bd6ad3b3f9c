"""Step 3, INT96: old timestamps that pyarrow would turn into other times without a word.

It reads them as nanoseconds, which can't hold the year 9999, for one. Such times are refused.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.schemas.errors import ShardError

NANOS_PER_S = 10**9
FIRST_S, LAST_S = -(2**63 // NANOS_PER_S), 2**63 // NANOS_PER_S - 1


def int96_columns(file: pq.ParquetFile, columns: Sequence[str]) -> list[str]:
    """Name those of some columns that hold INT96, however deep."""
    paths = [chunk.path for chunk in file.schema if chunk.physical_type == "INT96"]
    return [name for name in columns if any(f"{path}.".startswith(f"{name}.") for path in paths)]


def refuse_far_times(seconds: pa.Table, where: str) -> None:
    """Refuse times that nanoseconds can't hold.

    Args:
        seconds: INT96 columns, read as timestamps of seconds, which hold all that INT96 can.
        where: file and row group, for the message.

    Raises:
        ShardError: there is one.
    """
    for name, column in zip(seconds.column_names, seconds.columns, strict=True):
        for times in _timestamps(column.combine_chunks()):
            found = pc.min_max(times.cast(pa.int64())).as_py()
            if found["min"] is not None and not FIRST_S <= found["min"] <= found["max"] <= LAST_S:
                msg = (
                    f"{where}: column {name!r} has INT96 timestamps before 1677-09-21 or after "
                    "2262-04-11, which nanoseconds can't hold. Write the file anew with "
                    "timestamps of microseconds, or leave the column out of output.columns"
                )
                raise ShardError(msg)


def _timestamps(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the timestamps of seconds in an array, however deep."""
    if isinstance(array, pa.MapArray):
        yield from _timestamps(array.keys)
        yield from _timestamps(array.items)
    elif isinstance(array, pa.ListArray):
        yield from _timestamps(array.flatten())
    elif isinstance(array, pa.StructArray):
        for child in array.flatten():
            yield from _timestamps(child)
    elif array.type == pa.timestamp("s"):
        yield array
