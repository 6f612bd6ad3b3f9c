"""Step 6b for packs: put a shard's rows into static packs of tokens, one row after the other.

As batches, packs depend on the rows' lengths and the plan's grid alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from headrace.kernels.pack_gather.launch import pack_gather
from headrace.kernels.varlen_attention.launch import most_blocks, query_blocks
from headrace.schemas.plan import PackSize
from headrace.stages.batch import Move, Rows, padded_rows
from headrace.stages.handover import RaggedOnDevice


@dataclass(frozen=True)
class Pack:
    """Rows without padding between them: a `StaticBatch` (batch.py) for the packed encoder."""

    rows: Rows  # (R,)
    counts: Rows  # (R,) tokens of each, special tokens included
    size: PackSize

    @property
    def height(self) -> int:
        """See `StaticBatch`."""
        return self.size.rows

    @property
    def padded_tokens(self) -> int:
        """See `StaticBatch`."""
        return self.size.tokens

    @property
    def shape(self) -> str:
        """See `StaticBatch`."""
        return f"{self.size.tokens} tokens"

    def take(self, at: Rows) -> "Pack":
        """See `StaticBatch`."""
        return exact_pack(self.rows[at], self.counts[at])

    def lay_out(
        self, ragged: RaggedOnDevice, pad_id: int, move: Move
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Make what `PackedEncoder` takes: ids (T,), places (T,), edges (B + 1,), blocks (K, 2)."""
        tokens, height = self.size.tokens, self.size.rows
        edges = np.full(height + 1, self.counts.sum(), np.int32)
        edges[0], edges[1 : self.counts.size + 1] = 0, np.cumsum(self.counts)
        blocks = query_blocks(self.counts, most_blocks(tokens, height))
        edges_b1, blocks_k2 = move(torch.from_numpy(edges)), move(torch.from_numpy(blocks))
        ids_t, places_t = pack_gather(
            ragged.ids,
            ragged.starts,
            move(padded_rows(self.rows, height)),
            edges_b1,
            tokens,
            pad_id,
            ragged.before,
            ragged.behind,
        )
        return ids_t, places_t, edges_b1, blocks_k2


def exact_pack(rows: Rows, counts: Rows) -> Pack:
    """Pack rows (R,) of so many tokens (R,) each, with room for no others."""
    return Pack(rows, counts, PackSize(tokens=max(1, int(counts.sum())), rows=rows.size))


def make_packs(rows: Rows, lengths: Rows, sizes: tuple[PackSize, ...]) -> Iterator[Pack]:
    """Pack some rows, each pack as mixed as the shard, so that its rows are about as many.

    Args:
        rows: (R,) the rows to compute.
        lengths: (N,) tokens of every row of the shard; none is above the largest size.
        sizes: of packs, the largest first. The last pack gets the smallest that holds it.
    """
    order = np.argsort(-lengths[rows], kind="stable")
    full = sizes[0]
    deal = max(1, -(-int(lengths[rows].sum()) // full.tokens))  # packs, if none had a gap
    rows = rows[np.concatenate([order[first::deal] for first in range(deal)])]
    ends = np.cumsum(lengths[rows])
    at = 0
    while at < rows.size:
        room = (ends[at - 1] if at else 0) + full.tokens
        end = min(int(np.searchsorted(ends, room, side="right")), at + full.rows)
        assert end > at, "a row above the largest pack"
        counts = lengths[rows[at:end]]
        size = full
        if end == rows.size:
            size = [one for one in sizes if _holds(one, counts)][-1]
        yield Pack(rows[at:end], counts, size)
        at = end


def _holds(size: PackSize, counts: Rows) -> bool:
    return counts.size <= size.rows and int(counts.sum()) <= size.tokens
