"""A Parquet file as pyarrow reads it: from a disk as it is, from a store only what is needed."""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from headrace.stages.places import AnyPath, is_local, open_ranges

FIRST_TAIL_BYTES = 64 << 10  # most footers fit in, so that one request is enough
END_BYTES = 8  # the footer's length, and the magic behind it
# parquet-mr once forgot a dictionary page's header in a chunk's size; readers look so far behind
# (apache/parquet-cpp, PARQUET-816).
SLACK_BYTES = 100
Range = tuple[int, int]


def parquet_metadata(file: AnyPath) -> tuple[pq.FileMetaData, pa.Schema]:
    """Read a footer: what it says, and the Arrow schema that pyarrow makes of it.

    Raises:
        OSError, pyarrow.ArrowInvalid: it can't be read.
    """
    return _understood(str(file) if is_local(file) else pa.BufferReader(_tail(file)[1]))


def _understood(source: str | pa.BufferReader) -> tuple[pq.FileMetaData, pa.Schema]:
    with pq.ParquetFile(source) as opened:
        return opened.metadata, opened.schema_arrow


@contextmanager
def parquet_file(
    file: AnyPath,
    row_group: int,
    columns: Sequence[str],
    **options: Any,  # noqa: ANN401 - pyarrow's
) -> Iterator[pq.ParquetFile]:
    """Open a file to read some columns of one row group; a store gives just those bytes, at once.

    Raises:
        OSError, pyarrow.ArrowInvalid, IndexError: it can't be read, or has no such row group.
    """
    if is_local(file):
        with pq.ParquetFile(file, **options) as opened:
            yield opened
        return
    size, tail = _tail(file)
    metadata, schema = _understood(pa.BufferReader(tail))
    data_end = size - len(tail)
    wanted = [
        (start, min(end + SLACK_BYTES, data_end))
        for start, end in chunk_ranges(metadata, schema, row_group, columns)
        if start < data_end
    ]
    with (
        open_ranges(file, size, _merged(wanted), {(data_end, size): tail}) as source,
        pq.ParquetFile(source, metadata=metadata, pre_buffer=False, **options) as opened,
    ):
        yield opened


def _tail(file: UPath) -> tuple[int, bytes]:
    """Tell a file's size, and give its last bytes: the whole footer, and maybe more."""
    size = int(file.fs.size(file.path))
    tail: bytes = file.fs.cat_file(file.path, start=max(0, size - FIRST_TAIL_BYTES), end=size)
    if len(tail) >= END_BYTES:
        (length,) = struct.unpack("<I", tail[-END_BYTES:-4])
        whole = min(size, length + END_BYTES)
        if whole > len(tail):
            tail = file.fs.cat_file(file.path, start=size - whole, end=size)
    return size, tail


def chunk_ranges(
    metadata: pq.FileMetaData, schema: pa.Schema, row_group: int, columns: Sequence[str]
) -> Iterator[Range]:
    """Say where the chunks of some columns lie in the file: first byte, and the one behind."""
    group = metadata.row_group(row_group)
    for at, owner in enumerate(chunk_owners(schema)):
        chunk = group.column(at)
        if owner in columns and chunk.total_compressed_size:
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
                start = chunk.dictionary_page_offset
            yield start, start + chunk.total_compressed_size


def _merged(ranges: Sequence[Range]) -> list[Range]:
    """Join ranges that touch: fewer requests for the same bytes."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def chunk_owners(schema: pa.Schema) -> list[str]:
    """Name the column that each of a row group's chunks belongs to."""
    return [field.name for field in schema for _ in _leaves(field.type)]


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yield what Parquet keeps as columns of their own; a leaf's path does not tell its field."""
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(kind.storage_type)
    elif pa.types.is_map(kind):
        yield from _leaves(kind.key_type)
        yield from _leaves(kind.item_type)
    elif pa.types.is_nested(kind):  # a struct without a field is kept nowhere
        for at in range(kind.num_fields):
            yield from _leaves(kind.field(at).type)
    else:
        yield kind
