"""The readable truth of `pack_gather`."""

import torch


def pack_gather(
    ids_t: torch.Tensor,
    starts_n: torch.Tensor,
    rows_b: torch.Tensor,
    edges_b1: torch.Tensor,
    tokens: int,
    pad_id: int,
    before_p: torch.Tensor,
    behind_s: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lay some ragged rows out one after the other, with the special tokens around each.

    Args:
        ids_t: (T,) int32, the tokens of all rows.
        starts_n: (N,) int64, where each row starts in `ids_t`.
        rows_b: (B,) int64, which rows, in the pack's order; -1 for none, where the edges are equal.
        edges_b1: (B + 1,) int32, where each row begins in the pack, special tokens included, and
            the end of the last. Of a row that is longer, its own last tokens are left out.
        tokens: K, of the pack; at least the last edge.
        pad_id: what stands behind the last edge.
        before_p: (P,) int64, the special tokens before each row.
        behind_s: (S,) int64, those behind it.

    Returns:
        ids (K,) int32, and places (K,) int32: each token's place in its row, from 0. Behind the
        last edge, places are 0.
    """
    at_k = torch.arange(tokens, device=ids_t.device, dtype=torch.int32)
    here_k = at_k < edges_b1[-1]
    b_k = torch.searchsorted(edges_b1, at_k, right=True).clamp(max=rows_b.numel()) - 1
    column_k = (at_k - edges_b1[b_k]).to(torch.int64)
    end_k = (edges_b1[b_k + 1] - edges_b1[b_k]).to(torch.int64) - behind_s.numel()
    first = before_p.numel()
    ids_k = torch.full((tokens,), pad_id, dtype=torch.int32, device=ids_t.device)
    for source, mine_k, where_k in (
        (ids_t, (column_k >= first) & (column_k < end_k), starts_n[rows_b[b_k]] + column_k - first),
        (before_p, column_k < first, column_k),
        (behind_s, column_k >= end_k, column_k - end_k),
    ):
        if source.numel():
            taken_k = mine_k & here_k
            ids_k = torch.where(taken_k, source[torch.where(taken_k, where_k, 0)].int(), ids_k)
    return ids_k, torch.where(here_k, column_k, 0).int()
