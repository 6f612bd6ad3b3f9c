"""Steps 6a and 6b: the plan's grid of static sizes, and the batches that follow from it."""

from collections.abc import Iterator

import numpy as np
import torch

from headrace.schemas.plan import BatchSize, PackSize, Shape, ShapeGrid
from headrace.stages.batch import Batch, Rows, StaticBatch, make_batches
from headrace.stages.handover import RaggedOnDevice
from headrace.stages.pack import Pack, make_packs
from headrace.stages.shapes import LADDER

ROW_FACTOR = 1.5  # rows that a pack may have, of those that a sample's mean length gives


def pack_sizes(lengths: Rows, *, max_length: int, batch_tokens: int) -> tuple[PackSize, ...]:
    """Choose the sizes of packs, largest first.

    Args:
        lengths: (S,) tokens of the sampled rows.
        max_length: the longest row that the tokenizer lets through; it fits the first size.
        batch_tokens: of a full pack.
    """
    tokens = max(batch_tokens, max_length)
    mean = max(1.0, float(lengths.mean())) if lengths.size else 1.0
    rows = min(tokens, int(ROW_FACTOR * tokens / mean) + 1)
    sizes = ((max(1, tokens // part), max(1, rows // part)) for part in LADDER)
    return tuple(PackSize(tokens=t, rows=r) for t, r in dict.fromkeys(sizes))


def make_grid(
    lengths: Rows,
    batch_tokens: int,
    shard_rows: int,
    *,
    shapes: tuple[Shape, ...] = (),
    packs: tuple[PackSize, ...] = (),
) -> ShapeGrid:
    """Wrap the sizes with what a sample of rows, of so many tokens (S,) each, says of them."""
    grid = ShapeGrid(
        shapes=shapes,
        packs=packs,
        batch_tokens=batch_tokens,
        sample_rows=int(lengths.size),
        sample_tokens=int(lengths.sum()),
        padding_share=0.0,
    )
    share = padding_share(grid, lengths, shard_rows)
    return grid.model_copy(update={"padding_share": share})


def batches_of(grid: ShapeGrid, rows: Rows, lengths: Rows) -> Iterator[StaticBatch]:
    """Batch some rows (R,) of a shard's, of so many tokens (N,) each, as the grid says."""
    if grid.packs:
        return make_packs(rows, lengths, grid.packs)
    return make_batches(rows, lengths, grid.shapes)


def padding_share(grid: ShapeGrid, lengths: Rows, shard_rows: int) -> float:
    """Estimate a run's padding share: batch a sample stretched or cut to the size of one shard."""
    if lengths.size == 0 or shard_rows == 0:
        return 0.0
    stretched = np.sort(lengths)[np.arange(shard_rows) * lengths.size // shard_rows]
    batches = batches_of(grid, np.arange(shard_rows), stretched)
    return 1.0 - int(stretched.sum()) / sum(batch.padded_tokens for batch in batches)


def full_batch(size: BatchSize | PackSize, lengths: Rows) -> StaticBatch:
    """Fill a batch of a size with a sample's rows, of so many tokens (N,), again and again."""
    if isinstance(size, BatchSize):
        return Batch(np.resize(np.arange(lengths.size), size.rows), size.rows, size.length)
    rows = np.resize(np.arange(lengths.size), size.rows)
    held = int(np.searchsorted(np.cumsum(lengths[rows]), size.tokens, side="right"))
    return Pack(rows[:held], lengths[rows[:held]], size)


def blank_batch(size: BatchSize | PackSize) -> StaticBatch:
    """Make a batch of one row of one token (`blank_tokens`) and of nothing else.

    It has padding, as what is captured must: transformers leaves the mask out of a full batch,
    except where it captures, and so would warm up something else.
    """
    one = np.zeros(1, np.int64)
    if isinstance(size, BatchSize):
        return Batch(one, size.rows, size.length)
    return Pack(one, one + 1, size)


def blank_tokens(device: str) -> RaggedOnDevice:
    """Make the tokens of a shard of one row: one token, the first of the vocabulary."""
    zero, none = (torch.zeros(n, dtype=torch.int64, device=device) for n in (1, 0))
    return RaggedOnDevice(zero.int(), zero, zero + 1, none, none)
