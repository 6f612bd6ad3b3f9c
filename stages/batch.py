"""Step 6b: put a shard's rows into static batches, longest first.

The batches depend on the rows' lengths and the plan's grid alone, so a retry computes the same
batches. What does not fill a batch is filled up with the next shorter rows, not with padding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.schemas.plan import Shape


@dataclass(frozen=True)
class Batch:
    """Some rows of a shard in one static shape."""

    rows: npt.NDArray[np.int64]  # (at most `height`,) the shard's row numbers
    height: int
    length: int

    @property
    def padded_tokens(self) -> int:
        """Tokens that the device computes."""
        return self.height * self.length

    @property
    def shape(self) -> str:
        """The shape as reports print it."""
        return f"{self.height} x {self.length}"


def make_batches(
    rows: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], shapes: tuple[Shape, ...]
) -> Iterator[Batch]:
    """Batch some rows.

    Args:
        rows: (R,) the rows to compute.
        lengths: (N,) tokens of every row of the shard.
        shapes: the grid, shortest first; no row is longer than the last.
    """
    order = np.argsort(-lengths[rows], kind="stable")
    rows, tokens = rows[order], lengths[rows][order]
    which = np.searchsorted([shape.length for shape in shapes], tokens)  # falls, as tokens do
    at = 0
    while at < rows.size:
        shape = shapes[int(which[at])]
        same = int(np.searchsorted(-which, -which[at], side="right")) - at
        height = next((size for size in shape.rows if size <= same), shape.rows[-1])
        yield Batch(rows[at : at + height], height, shape.length)
        at += height


def padding_share(
    lengths: npt.NDArray[np.int64], shapes: tuple[Shape, ...], shard_rows: int
) -> float:
    """Estimate a run's padding share: batch a sample stretched or cut to the size of one shard."""
    if lengths.size == 0 or shard_rows == 0:
        return 0.0
    stretched = np.sort(lengths)[np.arange(shard_rows) * lengths.size // shard_rows]
    rows = np.arange(shard_rows)
    padded = sum(batch.padded_tokens for batch in make_batches(rows, stretched, shapes))
    return 1.0 - int(stretched.sum()) / padded
