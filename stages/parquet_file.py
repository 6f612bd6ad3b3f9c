"""Steps 1b and 3 for Parquet: a file's footer, and the rows of a slice."""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import NoReturn

import pyarrow as pa

from headrace.schemas.errors import JobError, ShardError
from headrace.schemas.plan import InputFile, Slice
from headrace.stages.file_checks import find_faults
from headrace.stages.footer import Footer, RowGroup, rows_only
from headrace.stages.int96 import int96_columns, refuse_far_times
from headrace.stages.listing import Listed
from headrace.stages.parquet_source import chunk_owners, parquet_file, parquet_metadata
from headrace.stages.places import AnyPath, open_bytes

TAIL_BYTES = 8  # four bytes of footer length, then the magic
MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"
BATCH_ROWS = 16_384
RESTORE = "Restore the file, and run the same command again"


def parquet_footer(entry: Listed) -> Footer:
    """Read a Parquet file's footer.

    Raises:
        JobError: it is no Parquet file, or an encrypted one.
    """
    try:
        size, footer = _footer_bytes(entry.file)
        metadata, schema = parquet_metadata(entry.file)
        data_end = size - TAIL_BYTES - len(footer)
        faults = find_faults(footer, metadata, chunk_owners(schema), data_end)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError) as error:
        msg = (
            f"input.path: expected a Parquet file, got {entry.file} ({error}). "
            "Restore the file, or leave it out of input.path."
        )
        raise JobError(msg) from error
    groups = (metadata.row_group(at) for at in range(metadata.num_row_groups))
    return Footer(
        listed=entry,
        file=InputFile(
            path=entry.relative,
            size_bytes=size,
            footer_sha256=hashlib.sha256(footer).hexdigest(),
            rows=metadata.num_rows,
        ),
        schema=schema,
        row_groups=tuple(RowGroup(group.num_rows, group.total_byte_size) for group in groups),
        faults=faults,
    )


def _footer_bytes(file: AnyPath) -> tuple[int, bytes]:
    """Size of the file, and its footer, which holds every column chunk's place and size."""
    size = file.stat().st_size
    with open_bytes(file) as source:
        source.seek(max(0, size - TAIL_BYTES))
        tail = source.read(TAIL_BYTES)
        if tail[4:] == ENCRYPTED_MAGIC:
            msg = "its footer is encrypted, and headrace has no keys"
            raise ValueError(msg)
        if len(tail) < TAIL_BYTES or tail[4:] != MAGIC:
            msg = "it does not end like one"
            raise ValueError(msg)
        (length,) = struct.unpack("<I", tail[:4])
        source.seek(max(0, size - TAIL_BYTES - length))
        return size, source.read(length)


def read_parquet(file_path: AnyPath, piece: Slice, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read the columns that the file has of these, bit-equal to what it holds.

    Raises:
        ShardError: its bytes can't be decoded, or make other rows or times than they stand for;
            it names file and row group.
        OSError: the disk failed; it may succeed another time.
    """
    rows = 0
    try:
        for table in _decode(file_path, piece, columns):
            rows += table.num_rows
            yield table
    except (pa.ArrowException, OSError, IndexError) as error:  # IndexError: no such row group
        _raise_named(error, file_path, piece.row_group)
    if rows != piece.rows:
        msg = (
            f"{file_path}, row group {piece.row_group}: expected {piece.rows:,} rows as its footer "
            f"says, got {rows:,}. {RESTORE}"
        )
        raise ShardError(msg)


def _raise_named(error: Exception, file_path: AnyPath, row_group: int) -> NoReturn:
    """Raise what the disk did as it is, and what the file holds as the shard's fault."""
    if isinstance(error, MemoryError):
        raise error
    if isinstance(error, OSError) and error.errno is not None:
        raise OSError(error.errno, error.strerror, str(file_path)) from error
    said = "".join(letter if letter.isprintable() else " " for letter in str(error))
    text = " ".join(said.split()).rstrip(":.")
    msg = f"{file_path}, row group {row_group}: it can't be read ({text}). {RESTORE}"
    raise ShardError(msg) from error


def _decode(
    file_path: AnyPath, piece: Slice, columns: Sequence[str], int96_unit: str = "ns"
) -> Iterator[pa.Table]:
    with parquet_file(
        file_path,
        piece.row_group,
        columns,
        coerce_int96_timestamp_unit=int96_unit,
        page_checksum_verification=True,
    ) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
        old = int96_columns(file, present)
        if old and int96_unit == "ns":
            for seconds in _decode(file_path, piece, old, "s"):
                refuse_far_times(seconds, f"{file_path}, row group {piece.row_group}")
        rows = file.metadata.row_group(piece.row_group).num_rows
        if piece.row_start == 0 and piece.rows == rows:
            yield (
                file.read_row_group(piece.row_group, columns=present)
                if present
                else rows_only(rows)
            )
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
            yield rows_only(piece.rows)


def parquet_stored_bytes(file: AnyPath, piece: Slice, columns: Sequence[str]) -> int:
    """Bytes that these columns of a slice take in the file, compressed."""
    metadata, schema = parquet_metadata(file)
    group, owners = metadata.row_group(piece.row_group), chunk_owners(schema)
    size = sum(
        group.column(at).total_compressed_size
        for at, owner in enumerate(owners)
        if owner in columns
    )
    return int(size * piece.rows // max(1, group.num_rows))
