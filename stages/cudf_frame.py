"""Steps 3 and 4 on the GPU: the model's columns as a cuDF frame.

Only public names of cuDF and pylibcudf are used here; a check holds them against the installed
packages (docs/gpu.md).
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from headrace.schemas.plan import Slice
from headrace.stages.gpu_setup import PIECE_BYTES
from headrace.stages.handover import tensor_of

# cuDF ships no types that hold without a GPU's packages.
CudfFrame = Any
CudfSeries = Any

# What becomes of cuDF's, RMM's and CuPy's C++ exceptions in Python. What the device can't do, the
# host does, or it says what is wrong.
DEVICE_FAULTS = (
    RuntimeError,
    MemoryError,
    ValueError,
    TypeError,
    IndexError,
    OverflowError,
    NotImplementedError,
    AttributeError,
    KeyError,
    ArithmeticError,
    AssertionError,
    OSError,
)


def read_frame(file: Path, piece: Slice, columns: Sequence[str]) -> CudfFrame:
    """Read the rows of a slice of a Parquet file on the device.

    Raises:
        RuntimeError: (or another of `DEVICE_FAULTS`) cuDF can't read it.
    """
    import cudf
    import pylibcudf as plc

    source = plc.io.SourceInfo([str(file)])
    builder = plc.io.parquet.ParquetReaderOptions.builder(source)
    options = builder.ignore_missing_columns(False).build()
    options.set_column_names(list(columns))
    first, whole = _place_in_file(file, piece)
    if whole:
        options.set_row_groups([[piece.row_group]])
    else:
        options.set_skip_rows(first)
        options.set_num_rows(piece.rows)
    frame = cudf.DataFrame.from_pylibcudf(plc.io.parquet.read_parquet(options))
    if len(frame) != piece.rows:
        msg = f"{file}: expected {piece.rows:,} rows on the device, got {len(frame):,}"
        raise RuntimeError(msg)
    return frame


def _place_in_file(file: Path, piece: Slice) -> tuple[int, bool]:
    """Say which of the file's rows is the slice's first, and whether it is a whole row group."""
    with pq.ParquetFile(file) as source:
        groups = source.metadata
        before = sum(groups.row_group(at).num_rows for at in range(piece.row_group))
        rows = groups.row_group(piece.row_group).num_rows
    return before + piece.row_start, piece.row_start == 0 and piece.rows == rows


def frame_of(table: pa.Table) -> CudfFrame:
    """Copy a table of text columns to the device; invalid UTF-8 goes along as it is."""
    import cudf

    return cudf.DataFrame.from_arrow(table)


def bounded(frames: Iterable[CudfFrame], most_bytes: int = PIECE_BYTES) -> Iterator[CudfFrame]:
    """Cut and join frames of text, in order, so that each holds about `most_bytes` at most."""
    import cudf

    held: list[CudfFrame] = []
    held_bytes = 0
    for frame in frames:
        for part, size in _cut(frame, most_bytes):
            if held and held_bytes + size > most_bytes:
                yield held[0] if len(held) == 1 else cudf.concat(held, ignore_index=True)
                held, held_bytes = [], 0
            held.append(part)
            held_bytes += size
    if held:
        yield held[0] if len(held) == 1 else cudf.concat(held, ignore_index=True)


def _cut(frame: CudfFrame, most_bytes: int) -> Iterator[tuple[CudfFrame, int]]:
    size_n = np.zeros(len(frame), np.int64)
    for name in frame.columns:
        size_n += frame[name].str.byte_count().fillna(0).to_numpy().astype(np.int64)
    for start, stop in cuts(size_n, most_bytes):
        whole = stop - start == len(frame)
        yield frame if whole else frame.iloc[start:stop], int(size_n[start:stop].sum())


def cuts(size_n: npt.NDArray[np.int64], most_bytes: int) -> Iterator[tuple[int, int]]:
    """Cut rows (N,) of these sizes, in order, so that no run of them is above `most_bytes`.

    A row that is larger by itself stands alone.
    """
    end_n = np.cumsum(size_n)
    start = 0
    while start < size_n.size:
        before = int(end_n[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(end_n, before + most_bytes, side="right")))
        yield start, stop
        start = stop


def text_buffers(text: CudfSeries) -> tuple[torch.Tensor, torch.Tensor]:
    """Show a text column's memory to torch.

    Returns:
        bytes (T,) uint8 and edges (N + 1,) int64, where each row begins in them.
    """
    import pylibcudf as plc

    column, _ = text.to_pylibcudf()
    if column.size() == 0 or column.num_children() == 0:
        empty = torch.zeros(column.size() + 1, dtype=torch.int64)
        return empty[:0].to(torch.uint8), empty
    offsets = column.child(0)
    narrow = offsets.type().id() == plc.TypeId.INT32
    edges = tensor_of(offsets.data(), np.int32 if narrow else np.int64)
    edges = edges[column.offset() : column.offset() + column.size() + 1].to(torch.int64)
    first, last = int(edges[0]), int(edges[-1])
    if first == last:  # no memory, maybe
        return edges[:0].to(torch.uint8), edges - first
    return tensor_of(column.data(), np.uint8)[first:last], edges - first


def rows_where(series: CudfSeries, rows: npt.NDArray[np.int64]) -> CudfSeries:
    """Take some rows of a column or frame; all of them without a copy."""
    return series if rows.size == len(series) else series.take(rows)
