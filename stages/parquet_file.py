"""Steps 1b and 3 for Parquet: a file's footer, and the rows of a slice."""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.schemas.errors import JobError
from headrace.schemas.plan import InputFile, Slice
from headrace.stages.footer import Footer, RowGroup, rows_only
from headrace.stages.listing import Listed

TAIL_BYTES = 8  # four bytes of footer length, then the magic
BATCH_ROWS = 16_384


def parquet_footer(entry: Listed) -> Footer:
    """Read a Parquet file's footer.

    Raises:
        JobError: it is no Parquet file.
    """
    try:
        size, sha256 = _footer_digest(entry.file)
        metadata = pq.read_metadata(entry.file)
        schema = metadata.schema.to_arrow_schema()
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
            path=entry.relative, size_bytes=size, footer_sha256=sha256, rows=metadata.num_rows
        ),
        schema=schema,
        row_groups=tuple(RowGroup(group.num_rows, group.total_byte_size) for group in groups),
    )


def _footer_digest(file: Path) -> tuple[int, str]:
    """Size of the file, and SHA-256 of its footer: it holds every column chunk's place and size."""
    size = file.stat().st_size
    with file.open("rb") as source:
        source.seek(max(0, size - TAIL_BYTES))
        tail = source.read(TAIL_BYTES)
        if len(tail) < TAIL_BYTES or tail[4:] != b"PAR1":
            msg = "it does not end like one"
            raise ValueError(msg)
        (length,) = struct.unpack("<I", tail[:4])
        source.seek(max(0, size - TAIL_BYTES - length))
        return size, hashlib.sha256(source.read(length)).hexdigest()


def read_parquet(file_path: Path, piece: Slice, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read the columns that the file has of these, bit-equal to what it holds."""
    with pq.ParquetFile(file_path) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
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


def parquet_stored_bytes(file: Path, piece: Slice, columns: Sequence[str]) -> int:
    """Bytes that these columns of a slice take in the file, compressed."""
    metadata = pq.read_metadata(file)
    group = metadata.row_group(piece.row_group)
    owners = [
        field.name for field in metadata.schema.to_arrow_schema() for _ in _leaves(field.type)
    ]
    size = sum(
        group.column(at).total_compressed_size
        for at, owner in enumerate(owners)
        if owner in columns
    )
    return int(size * piece.rows // max(1, group.num_rows))


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yield what Parquet keeps as columns of their own; a leaf's path does not tell its field."""
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(kind.storage_type)
    elif pa.types.is_map(kind):
        yield from _leaves(kind.key_type)
        yield from _leaves(kind.item_type)
    elif pa.types.is_nested(kind) and kind.num_fields:
        for at in range(kind.num_fields):
            yield from _leaves(kind.field(at).type)
    else:
        yield kind
