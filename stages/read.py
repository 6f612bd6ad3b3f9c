"""Step 3: read a shard's rows as Arrow, in the input's order, with the dataset's one schema."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.schemas.errors import ShardError
from headrace.schemas.job import InputSpec
from headrace.schemas.plan import Slice
from headrace.stages.arrow_file import read_arrow
from headrace.stages.csv_file import read_csv
from headrace.stages.jsonl_file import read_jsonl
from headrace.stages.listing import partitions_of
from headrace.stages.parquet_file import parquet_stored_bytes, read_parquet
from headrace.stages.places import AnyPath


@dataclass(frozen=True)
class Source:
    """The input: the folder that slices' paths start from, the format, the dataset's schema."""

    base: AnyPath
    spec: InputSpec
    schema: pa.Schema


def read_slices(source: Source, slices: Sequence[Slice], columns: Sequence[str]) -> pa.Table:
    """Read some columns of some slices, bit-equal to what the files hold.

    Args:
        source: the input. A column that a file lacks is null there.
        slices: what to read, in order.
        columns: which of the schema's columns, in which order.

    Returns:
        A table with `columns`, its field and schema metadata those of the source's schema.

    Raises:
        ShardError: a file does not hold what the plan saw in it.
    """
    schema = source.schema
    wanted = pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)
    tables = [wanted.empty_table()]
    for piece in slices:
        tables += [_conform(table, piece, wanted) for table in _read(source, piece, wanted)]
    return pa.concat_tables(tables)


def _read(source: Source, piece: Slice, wanted: pa.Schema) -> Iterator[pa.Table]:
    file, spec = source.base / piece.path, source.spec
    if spec.format == "parquet":
        yield from read_parquet(file, piece, wanted.names)
        return
    if piece.span is None:
        table = read_arrow(file, piece.row_group, wanted.names)
    elif spec.format == "csv":
        table = read_csv(file, piece.span, spec, wanted.names)
    else:
        table = read_jsonl(file, piece.span, _of_objects(wanted, piece))
    if table.num_rows < piece.row_start + piece.rows:
        msg = (
            f"{file}: expected at least {piece.row_start + piece.rows:,} rows in row group "
            f"{piece.row_group}, got {table.num_rows:,}: it has changed since it was planned. "
            "Restore the file."
        )
        raise ShardError(msg)
    yield table.slice(piece.row_start, piece.rows)


def _of_objects(wanted: pa.Schema, piece: Slice) -> pa.Schema:
    """Leave out what hive folders say: objects don't hold it."""
    folders = dict(partitions_of(piece.path))
    return pa.schema([field for field in wanted if field.name not in folders])


def stored_bytes(source: Source, slices: Sequence[Slice], columns: Sequence[str]) -> int:
    """Bytes that a shard's input takes in its files, compressed.

    Of Parquet these columns alone; of the other formats all, since all is read.
    """
    total = 0
    for piece in slices:
        file = source.base / piece.path
        if source.spec.format == "parquet":
            total += parquet_stored_bytes(file, piece, columns)
        else:
            total += piece.span[1] if piece.span else 0
    return total


def _conform(table: pa.Table, piece: Slice, schema: pa.Schema) -> pa.Table:
    """Give a file's columns the dataset's order and types: hive values as text, gaps as nulls."""
    folders = dict(partitions_of(piece.path))
    arrays: list[pa.ChunkedArray | pa.Array] = []
    for field in schema:
        if field.name in table.column_names:
            column = table.column(field.name)
            # Equal types may differ in what casts can't take, such as extension types.
            arrays.append(column if column.type == field.type else column.cast(field.type))
        elif folders.get(field.name) is not None:
            arrays.append(pa.repeat(folders[field.name], table.num_rows))
        else:
            arrays.append(pa.nulls(table.num_rows, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
