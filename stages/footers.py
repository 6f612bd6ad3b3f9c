"""Step 1b: read every file's Parquet footer, in parallel."""

import hashlib
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.schemas.errors import JobError
from headrace.schemas.plan import InputFile
from headrace.stages.file_checks import FileFault, concerning, find_faults
from headrace.stages.listing import Listed

READERS = 16  # footers are small: waiting for the disk dominates
TAIL_BYTES = 8  # four bytes of footer length, then the magic
MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"


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
    faults: tuple[FileFault, ...] = ()


def read_footers(listed: list[Listed]) -> list[Footer]:
    """Read the footers of these files, in their order.

    Raises:
        JobError: a file is no Parquet file; the message names it.
    """
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(_read_footer, listed))


def refuse_unreadable(footers: Sequence[Footer], columns: Sequence[str]) -> None:
    """Refuse files whose footers show that some of these columns can't be read.

    Raises:
        JobError: the message names the first such file, row group and column.
    """
    found = [(foot, fault) for foot in footers for fault in concerning(foot.faults, columns)]
    if not found:
        return
    footer, fault = found[0]
    group = "" if fault.row_group is None else f", row group {fault.row_group}"
    column = "" if fault.column is None else f", column {fault.column!r}"
    left = len(found) - 1
    more = f" ({left:,} more such fault{'s' * (left > 1)} in the input.)" if left else ""
    msg = (
        f"input.path: expected Parquet files that can be read, got {footer.listed.file}{group}"
        f"{column}: {fault.why}. Write the file anew, or leave it out of input.path; or leave the "
        f"column out of input.text and output.columns.{more}"
    )
    raise JobError(msg)


def _read_footer(entry: Listed) -> Footer:
    try:
        size, footer = _footer_bytes(entry.file)
        metadata = pq.read_metadata(entry.file)
        schema = metadata.schema.to_arrow_schema()
        faults = find_faults(footer, metadata, schema, size - TAIL_BYTES - len(footer))
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


def _footer_bytes(file: Path) -> tuple[int, bytes]:
    """Size of the file, and its footer, which holds every column chunk's place and size."""
    size = file.stat().st_size
    with file.open("rb") as source:
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
