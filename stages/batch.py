"""Step 6b: put a shard's rows into static batches, longest first.

The batches depend on the rows' lengths and the plan's grid alone, so a retry computes the same
batches. What does not fill a batch is filled up with the next shorter rows, not with padding.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt
import torch

from headrace.kernels.pad_gather.launch import pad_gather
from headrace.schemas.plan import BatchSize, PackSize, Shape
from headrace.stages.handover import RaggedOnDevice

Rows = npt.NDArray[np.int64]
Move = Callable[[torch.Tensor], torch.Tensor]  # from the host to the device


class StaticBatch(Protocol):
    """Some rows of a shard, and the static size of what the model is given."""

    @property
    def rows(self) -> Rows:
        """The shard's row numbers (R,), at most `height` of them."""

    @property
    def height(self) -> int:
        """How many rows' results the model gives."""

    @property
    def padded_tokens(self) -> int:
        """Tokens that the device computes."""

    @property
    def size(self) -> BatchSize | PackSize:
        """The static size."""

    @property
    def shape(self) -> str:
        """The size as reports print it."""

    def take(self, at: Rows) -> Self:
        """Make the batch of some of its rows, by their places in it, and of no others."""

    def lay_out(self, ragged: RaggedOnDevice, pad_id: int, move: Move) -> tuple[torch.Tensor, ...]:
        """Make what the model is given, on the device, of a shard's tokens."""


@dataclass(frozen=True)
class Batch:
    """Rows padded to one length: a `StaticBatch` for any model."""

    rows: Rows  # (at most `height`,)
    height: int
    length: int

    @property
    def padded_tokens(self) -> int:
        """See `StaticBatch`."""
        return self.height * self.length

    @property
    def size(self) -> BatchSize:
        """See `StaticBatch`."""
        return BatchSize(rows=self.height, length=self.length)

    @property
    def shape(self) -> str:
        """See `StaticBatch`."""
        return f"{self.height} x {self.length}"

    def take(self, at: Rows) -> "Batch":
        """See `StaticBatch`."""
        return Batch(self.rows[at], at.size, self.length)

    def lay_out(
        self, ragged: RaggedOnDevice, pad_id: int, move: Move
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Make ids (B, L) int64 and mask (B, L) int64."""
        return pad_gather(
            ragged.ids,
            ragged.starts,
            ragged.counts,
            move(padded_rows(self.rows, self.height)),
            self.length,
            pad_id,
            ragged.before,
            ragged.behind,
        )


def padded_rows(rows: Rows, height: int) -> torch.Tensor:
    """Number the rows of a static batch (B,) int64, -1 where there is none."""
    padded = np.full(height, -1, np.int64)
    padded[: rows.size] = rows
    return torch.from_numpy(padded)


def make_batches(rows: Rows, lengths: Rows, shapes: tuple[Shape, ...]) -> Iterator[Batch]:
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
