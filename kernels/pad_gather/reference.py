"""The readable truth of `pad_gather`."""

import torch


def pad_gather(
    ids_t: torch.Tensor,
    starts_n: torch.Tensor,
    counts_n: torch.Tensor,
    rows_b: torch.Tensor,
    length: int,
    pad_id: int,
    before_p: torch.Tensor,
    behind_s: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lay some ragged rows out as one padded batch, with the special tokens around each.

    Args:
        ids_t: (T,) int32, the tokens of all rows.
        starts_n: (N,) int64, where each row starts in `ids_t`.
        counts_n: (N,) int64, how many tokens each row has there.
        rows_b: (B,) int64, which rows, in the batch's order. -1 is a row of padding.
        length: L, at least P + S; of a longer row, its own last tokens are left out.
        pad_id: what padding holds; its mask is 0.
        before_p: (P,) int64, the special tokens before each row.
        behind_s: (S,) int64, those behind it.

    Returns:
        input_ids (B, L) int64 and attention_mask (B, L) int64, on the device of `ids_t`.
    """
    first, last = before_p.numel(), behind_s.numel()
    real_b1 = (rows_b >= 0)[:, None]
    some_b = rows_b.clamp(min=0)
    end_b1 = first + counts_n[some_b][:, None].clamp(max=length - first - last)
    column_l = torch.arange(length, device=ids_t.device)[None, :]
    mask_bl = real_b1 & (column_l < end_b1 + last)
    own_bl = real_b1 & (column_l >= first) & (column_l < end_b1)
    ids_bl = torch.full(mask_bl.shape, pad_id, dtype=torch.int64, device=ids_t.device)
    for source, here, at in (
        (ids_t, own_bl, starts_n[some_b][:, None] + column_l - first),
        (before_p, mask_bl & (column_l < first), column_l),
        (behind_s, mask_bl & (column_l >= end_b1), column_l - end_b1),
    ):
        if source.numel():
            ids_bl = torch.where(here, source[torch.where(here, at, 0)].to(torch.int64), ids_bl)
    return ids_bl, mask_bl.to(torch.int64)
