"""Step 1b, faults: what a footer shows that can't be read, found before anything is computed.

pyarrow is not asked about column chunks: it ends the process when one is encrypted, has a codec
that it does not know, or statistics of the wrong size. A regular expression finds the footers whose
chunks are plainly fine, which is nearly all; the others are read field by field.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.parquet as pq

from headrace.schemas.errors import JobError
from headrace.stages.footer import FileFault, Footer
from headrace.stages.thrift import read_struct

HEAD_BYTES = 4  # the magic: column chunks lie between it and the footer
# All numbers are those of parquet.thrift. Codec 5 is the LZ4 of Hadoop, 7 is LZ4_RAW.
READABLE_CODECS = {0, 1, 2, 4, 5, 6, 7}
OTHER_CODECS = {3: "LZO"}
READABLE_ENCODINGS = {0, 2, 3, 4, 5, 6, 7, 8, 9}
ROW_GROUPS, COLUMNS, ROWS, META_DATA, CRYPTO_METADATA = 4, 1, 3, 3, 8
ENCODINGS, CODEC, SIZE, DATA_PAGE, DICTIONARY_PAGE = 2, 4, 7, 9, 11
INT, INT_IN_TWO, LIST = rb"\x16", rb"\x26", rb"\x19"  # the next field's head: its type and distance
VARINT = rb"[\x80-\xff]*[\x00-\x7f]"
FINE_CHUNK = re.compile(
    rb"\x15[\x00-\x0e]"  # type
    + (LIST + rb"[\x05-\xe5][\x00\x04\x06\x08\x0a\x0c\x0e\x10\x12]{0,14}")  # readable encodings
    + (LIST + rb".{2,1000}?")  # path
    + rb"\x15[\x00\x02\x04\x08\x0a\x0c\x0e]"  # readable codec
    + (INT + VARINT) * 2  # number of values, size before compression
    + (INT + b"(" + VARINT + b")" + INT_IN_TWO + b"(" + VARINT + b")")  # size, data page
    + (b"(?:" + INT_IN_TWO + b"(" + VARINT + b"))?"),  # dictionary page
    re.DOTALL,
)


def find_faults(
    footer: bytes, metadata: pq.FileMetaData, owners: Sequence[str], data_end: int
) -> tuple[FileFault, ...]:
    """Find what a footer shows to be unreadable.

    Args:
        footer: the footer's bytes.
        metadata: the same, as pyarrow reads it.
        owners: the name of the column that each of a row group's chunks belongs to.
        data_end: where in the file the footer begins.

    Raises:
        ValueError: the footer is not written as Parquet says.
    """
    faults = list(_wrong_counts(metadata))
    if not _plainly_fine(footer, metadata, data_end):
        try:
            faults += _wrong_chunks(footer, owners, data_end)
        except (AttributeError, TypeError) as error:
            msg = "a field of its footer has another type than Parquet gives it"
            raise ValueError(msg) from error
    return tuple(faults)


def refuse_unreadable(footers: Sequence[Footer], columns: Sequence[str]) -> None:
    """Refuse files whose footers show that some of these columns can't be read.

    Raises:
        JobError: the message names the first such file, row group and column.
    """
    found = [
        (footer.listed.file, fault)
        for footer in footers
        for fault in footer.faults
        if fault.column is None or fault.column in columns
    ]
    if not found:
        return
    file, fault = found[0]
    group = "" if fault.row_group is None else f", row group {fault.row_group}"
    column = "" if fault.column is None else f", column {fault.column!r}"
    left = len(found) - 1
    more = f" ({left:,} more such fault{'s' * (left > 1)} in the input.)" if left else ""
    msg = (
        f"input.path: expected Parquet files that can be read, got {file}{group}{column}: "
        f"{fault.why}. Write the file anew, or leave it out of input.path; or leave the column out "
        f"of input.text and output.columns.{more}"
    )
    raise JobError(msg)


def _wrong_counts(metadata: pq.FileMetaData) -> Iterator[FileFault]:
    counts = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    for at, rows in enumerate(counts):
        if rows < 0:
            yield FileFault(f"it says that it holds {rows} rows", at)
    if sum(counts) != metadata.num_rows:
        rows = f"{metadata.num_rows:,} rows, its {len(counts)} row groups hold {sum(counts):,}"
        yield FileFault(f"its footer says {rows}")


def _plainly_fine(footer: bytes, metadata: pq.FileMetaData, data_end: int) -> bool:
    """Say whether every column chunk is found, readable, and within the file's data."""
    if len(footer) != metadata.serialized_size:  # an encrypting writer signs the footer
        return False
    found = FINE_CHUNK.findall(footer)
    return len(found) == metadata.num_row_groups * metadata.num_columns and all(
        _within(_number(size), _number(page), _number(dictionary), data_end)
        for size, page, dictionary in found
    )


def _number(varint: bytes) -> int:
    """Read a whole number ≥ 0 as the footer writes it; nothing is 0."""
    value = 0
    for byte in reversed(varint):
        value = value << 7 | byte & 127
    return value >> 1


def _within(size: int, data_page: int, dictionary_page: int, data_end: int) -> bool:
    start = _start(data_page, dictionary_page)
    return start >= HEAD_BYTES and size >= 0 and start + size <= data_end


def _start(data_page: int, dictionary_page: int) -> int:
    """Say where a chunk begins. A dictionary at 0 or behind the data is none, as in pyarrow."""
    return dictionary_page if 0 < dictionary_page < data_page else data_page


def _wrong_chunks(footer: bytes, owners: Sequence[str], data_end: int) -> Iterator[FileFault]:
    for at, group in enumerate(read_struct(footer).get(ROW_GROUPS, ())):
        chunks = group.get(COLUMNS, ()) if group.get(ROWS) else ()  # without rows: never read
        for owner, chunk in zip(owners, chunks, strict=False):
            why = _why_unreadable(chunk, data_end)
            if why is not None:
                yield FileFault(why, at, owner)


def _why_unreadable(chunk: dict[int, Any], data_end: int) -> str | None:
    facts = chunk.get(META_DATA)
    if facts is None or CRYPTO_METADATA in chunk:
        return "it is encrypted, and headrace has no keys"
    codec = facts.get(CODEC)
    if codec not in READABLE_CODECS:
        name = OTHER_CODECS.get(codec, f"codec {codec}")
        return f"it is compressed with {name}, which can't be read"
    unknown = sorted(set(facts.get(ENCODINGS, ())) - READABLE_ENCODINGS)
    if unknown:
        return f"it has the encoding {unknown[0]}, which can't be read"
    places = facts.get(SIZE, -1), facts.get(DATA_PAGE, 0), facts.get(DICTIONARY_PAGE, 0)
    if _within(*places, data_end):
        return None
    start = _start(*places[1:])
    return (
        f"its bytes {start:,} to {start + places[0]:,} are not within the file's data, "
        f"{HEAD_BYTES} to {data_end:,}"
    )
