"""Steps 5 and 6: a shard's tokens, row after row without padding, on the host or on the device."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from headrace.stages.tokenize import Tokens


@dataclass(frozen=True)
class Specials:
    """The special tokens that `pad_gather` puts around each row's own tokens."""

    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many a row gets."""
        return len(self.before) + len(self.behind)


@dataclass(frozen=True)
class Ragged:
    """Ragged token ids, with rows in any order in them.

    `ids` may be on the device already. Rows are as long as they are: what is above `max_length`,
    special tokens included, is left out when a batch is gathered.
    """

    ids: npt.NDArray[np.int32] | torch.Tensor  # (T,) int32
    starts: npt.NDArray[np.int64]  # (N,) where each row begins in `ids`
    counts: npt.NDArray[np.int64]  # (N,) how many of `ids` are its own
    present: npt.NDArray[np.bool_]  # (N,) whether the row has a text, be it empty
    max_length: int
    specials: Specials = field(default_factory=Specials)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens that the model gets of each row, (N,) int64; 0 for a row without a text."""
        whole = np.minimum(self.counts + self.specials.count, self.max_length)
        return np.where(self.present, whole, 0)


def ragged_of(tokens: Tokens, present: npt.NDArray[np.bool_], max_length: int) -> Ragged:
    """Take tokens (N rows) that hold their special tokens and are cut already."""
    return Ragged(tokens.ids, tokens.offsets[:-1], tokens.lengths, present, max_length)


@dataclass(frozen=True)
class RowTokens:
    """Bare tokens of some of a shard's rows."""

    rows: npt.NDArray[np.int64]  # (R,) which rows of the shard
    ids: torch.Tensor  # (T,) int32, row after row
    counts: npt.NDArray[np.int64]  # (R,)


def join(parts: Sequence[RowTokens], rows: int, max_length: int, specials: Specials) -> Ragged:
    """Put the tokens of all rows of a shard (N) into one array, in the order that they come in.

    Args:
        parts: each row in at most one of them; a row in none has no text.
        rows: N.
        max_length: of a row, special tokens included.
        specials: what each row gets around its tokens.
    """
    starts, counts = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    present = np.zeros(rows, np.bool_)
    at = 0
    for part in parts:
        starts[part.rows] = at + np.cumsum(part.counts) - part.counts
        counts[part.rows] = part.counts
        present[part.rows] = True
        at += int(part.counts.sum())
    ids = torch.cat([part.ids for part in parts]) if parts else torch.empty(0, dtype=torch.int32)
    return Ragged(ids, starts, counts, present, max_length, specials)
