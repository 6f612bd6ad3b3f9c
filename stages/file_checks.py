"""Step 1b: what a footer shows that can't be read, found before anything is computed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.stages.read import leaves
from headrace.stages.thrift import read_struct

HEAD_BYTES = 4  # the magic: column chunks lie between it and the footer
# As parquet.thrift numbers them. 5 is the LZ4 of Hadoop, whose framing pyarrow knows; 7 is LZ4_RAW.
READABLE_CODECS = {0: "none", 1: "snappy", 2: "gzip", 4: "brotli", 5: "lz4", 6: "zstd", 7: "lz4"}
OTHER_CODECS = {3: "LZO"}
UNKNOWN = "UNKNOWN"  # what pyarrow calls the encodings that it does not know
# A column chunk's codec, then its number of values and its two sizes, as every writer orders them.
VARINT = rb"[\x80-\xff]*[\x00-\x7f]"
CODEC = re.compile(rb"\x15([\x00-\x7f])\x16" + VARINT + rb"\x16" + VARINT + rb"\x16", re.DOTALL)
# Field numbers of parquet.thrift.
ROW_GROUPS, COLUMNS, META_DATA, META_CODEC, CRYPTO_METADATA = 4, 1, 3, 4, 8


@dataclass(frozen=True)
class FileFault:
    """Why a part of a file can't be read."""

    why: str
    row_group: int | None = None  # None: the file as a whole
    column: str | None = None  # None: every column


def find_faults(
    footer: bytes, metadata: pq.FileMetaData, schema: pa.Schema, data_end: int
) -> tuple[FileFault, ...]:
    """Find what a footer shows to be unreadable.

    Args:
        footer: the footer's bytes.
        metadata: the same, as pyarrow reads it.
        schema: the same as Arrow's schema.
        data_end: where in the file the footer begins.

    Raises:
        ValueError: the footer is not written as Parquet says.
    """
    faults = list(_wrong_counts(metadata))
    owners = [field.name for field in schema for _ in leaves(field.type)]
    sealed = _sealed(footer) if _may_have_sealed(footer, metadata) else {}
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        for leaf, owner in enumerate(owners if group.num_rows else ()):
            why = sealed.get((at, leaf)) or _why_unreadable(group.column(leaf), data_end)
            if why is not None:
                faults.append(FileFault(why, at, owner))
    return tuple(faults)


def concerning(faults: Sequence[FileFault], columns: Sequence[str]) -> list[FileFault]:
    """Return the faults that reading these columns would meet."""
    return [fault for fault in faults if fault.column is None or fault.column in columns]


def _wrong_counts(metadata: pq.FileMetaData) -> Iterator[FileFault]:
    counts = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    for at, rows in enumerate(counts):
        if rows < 0:
            yield FileFault(f"it says that it holds {rows} rows", at)
    if sum(counts) != metadata.num_rows:
        rows = f"{metadata.num_rows:,} rows, its {len(counts)} row groups hold {sum(counts):,}"
        yield FileFault(f"its footer says {rows}")


def _may_have_sealed(footer: bytes, metadata: pq.FileMetaData) -> bool:
    """Say whether a closer look is needed; pyarrow's own answer could end the process."""
    if len(footer) != metadata.serialized_size:  # an encrypting writer signs the footer
        return True
    codecs = [found[0] >> 1 for found in CODEC.findall(footer)]
    chunks = metadata.num_row_groups * metadata.num_columns
    return len(codecs) != chunks or not READABLE_CODECS.keys() >= set(codecs)


def _sealed(footer: bytes) -> dict[tuple[int, int], str]:
    """Say why column chunks can't be opened: (row group, leaf) to the reason."""
    found = {}
    for at, group in enumerate(read_struct(footer).get(ROW_GROUPS, ())):
        for leaf, chunk in enumerate(group.get(COLUMNS, ())):
            why = _why_sealed(chunk)
            if why is not None:
                found[at, leaf] = why
    return found


def _why_sealed(chunk: dict[int, Any]) -> str | None:
    if CRYPTO_METADATA in chunk or META_DATA not in chunk:
        return "it is encrypted, and headrace has no keys"
    codec = chunk[META_DATA].get(META_CODEC)
    if codec in READABLE_CODECS:
        return None
    return f"it is compressed with {OTHER_CODECS.get(codec, f'codec {codec}')}, which is not known"


def _why_unreadable(chunk: pq.ColumnChunkMetaData, data_end: int) -> str | None:
    if UNKNOWN in chunk.encodings:
        return "it has an encoding that is not known"
    start, size = chunk.data_page_offset, chunk.total_compressed_size
    # A dictionary at 0 or behind the data is none: some writers leave the field to chance.
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    if start < HEAD_BYTES or size < 0 or start + size > data_end:
        return (
            f"its bytes {start:,} to {start + size:,} are not within the file's data, "
            f"{HEAD_BYTES} to {data_end:,}"
        )
    return None
