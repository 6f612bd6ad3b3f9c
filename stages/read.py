"""Step 3: read a shard's rows as Arrow, in the input's order, with the dataset's one schema."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.schemas.errors import ShardError
from headrace.schemas.plan import Slice
from headrace.stages.listing import partitions_of

BATCH_ROWS = 16_384
RESTORE = "Restore the file, and run the same command again"


def read_slices(
    base: Path, slices: Sequence[Slice], schema: pa.Schema, columns: Sequence[str]
) -> pa.Table:
    """Read some columns of some slices, bit-equal to what the files hold.

    Args:
        base: the folder that the slices' paths start from.
        slices: what to read, in order.
        schema: the dataset's schema; a column that a file lacks is null there.
        columns: which of the schema's columns, in which order.

    Returns:
        A table with `columns`, its field and schema metadata those of `schema`.

    Raises:
        ShardError: a file's bytes can't be decoded; the message names file and row group.
        OSError: the disk failed; it may succeed another time.
    """
    wanted = pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)
    tables = [wanted.empty_table()]
    for piece in slices:
        tables += [_conform(batch, piece, wanted) for batch in _read(base, piece, columns)]
    return pa.concat_tables(tables)


def _read(base: Path, piece: Slice, columns: Sequence[str]) -> Iterator[pa.Table]:
    rows = 0
    try:
        for table in _decode(base / piece.path, piece, columns):
            rows += table.num_rows
            yield table
    except (pa.ArrowException, OSError, IndexError) as error:  # IndexError: no such row group
        _raise_named(error, base / piece.path, piece.row_group)
    if rows != piece.rows:
        msg = (
            f"{base / piece.path}, row group {piece.row_group}: expected {piece.rows:,} rows as "
            f"its footer says, got {rows:,}. {RESTORE}"
        )
        raise ShardError(msg)


def _decode(path: Path, piece: Slice, columns: Sequence[str]) -> Iterator[pa.Table]:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
        rows = file.metadata.row_group(piece.row_group).num_rows
        if piece.row_start == 0 and piece.rows == rows:
            yield _with_rows(file.read_row_group(piece.row_group, columns=present), rows)
            return
        at, end = 0, piece.row_start + piece.rows
        batches = file.iter_batches(BATCH_ROWS, row_groups=[piece.row_group], columns=present)
        for batch in batches if present else ():
            low, high = max(piece.row_start - at, 0), min(end - at, batch.num_rows)
            if low < high:
                yield pa.Table.from_batches([batch.slice(low, high - low)])
            at += batch.num_rows
            if at >= end:
                return
        if not present:
            yield _with_rows(pa.table({}), piece.rows)


def _raise_named(error: Exception, path: Path, row_group: int) -> NoReturn:
    """Raise what the disk did as it is, and what the file holds as the shard's fault."""
    if isinstance(error, MemoryError):
        raise error
    if isinstance(error, OSError) and error.errno is not None:
        raise OSError(error.errno, error.strerror, str(path)) from error
    said = "".join(letter if letter.isprintable() else " " for letter in str(error))
    text = " ".join(said.split()).rstrip(":.")
    msg = f"{path}, row group {row_group}: it can't be read ({text}). {RESTORE}"
    raise ShardError(msg) from error


def stored_bytes(base: Path, slices: Sequence[Slice], columns: Sequence[str]) -> int:
    """Bytes that these columns of these slices take in their files, compressed."""
    total = 0
    for piece in slices:
        metadata = pq.read_metadata(base / piece.path)
        group = metadata.row_group(piece.row_group)
        owners = [
            field.name for field in metadata.schema.to_arrow_schema() for _ in leaves(field.type)
        ]
        size = sum(
            group.column(at).total_compressed_size
            for at, owner in enumerate(owners)
            if owner in columns
        )
        total += size * piece.rows // max(1, group.num_rows)
    return total


def leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yield what Parquet keeps as columns of their own; a leaf's path does not tell its field."""
    if isinstance(kind, pa.BaseExtensionType):
        yield from leaves(kind.storage_type)
    elif pa.types.is_map(kind):
        yield from leaves(kind.key_type)
        yield from leaves(kind.item_type)
    elif pa.types.is_nested(kind) and kind.num_fields:
        for at in range(kind.num_fields):
            yield from leaves(kind.field(at).type)
    else:
        yield kind


def _with_rows(table: pa.Table, rows: int) -> pa.Table:
    """Keep the number of rows where no column could carry it."""
    return table if table.num_columns else pa.table({"": pa.nulls(rows)})


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
