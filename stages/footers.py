"""Step 1b: read every file's Parquet footer, in parallel."""

import hashlib
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.schemas.errors import JobError
from headrace.schemas.plan import InputFile
from headrace.stages.listing import Listed

READERS = 16  # footers are small: waiting for the disk dominates
TAIL_BYTES = 8  # four bytes of footer length, then the magic


@dataclass(frozen=True)
class RowGroup:
    """A row group's size: rows, and bytes as Parquet counts them (encoded, not compressed)."""

    rows: int
    size_bytes: int


@dataclass(frozen=True)
class Footer:
    """What the plan needs to know of one file."""

    listed: Listed
    file: InputFile
    schema: pa.Schema
    row_groups: tuple[RowGroup, ...]


def read_footers(listed: list[Listed]) -> list[Footer]:
    """Read the footers of these files, in their order.

    Raises:
        JobError: a file is no Parquet file; the message names it.
    """
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(_read_footer, listed))


def _read_footer(entry: Listed) -> Footer:
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
