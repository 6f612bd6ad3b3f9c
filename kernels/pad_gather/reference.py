"""The readable truth of `pad_gather`."""

import torch


def pad_gather(
    ids_t: torch.Tensor,
    offsets_n: torch.Tensor,
    rows_b: torch.Tensor,
    length: int,
    pad_id: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lay some ragged rows out as one padded batch.

    Args:
        ids_t: (T,) int32, the tokens of all rows, one after the other.
        offsets_n: (N + 1,) int64, where each row starts in `ids_t`.
        rows_b: (B,) int64, which rows, in the batch's order. -1 is a row of padding.
        length: L; a longer row is cut there.
        pad_id: what padding holds; its mask is 0.

    Returns:
        input_ids (B, L) int64 and attention_mask (B, L) int64, on the device of `ids_t`.
    """
    real_b = rows_b >= 0
    start_b = offsets_n[rows_b.clamp(min=0)]
    count_b = (offsets_n[rows_b.clamp(min=0) + 1] - start_b) * real_b
    column_l = torch.arange(length, device=ids_t.device)
    mask_bl = column_l[None, :] < count_b[:, None]
    source_bl = torch.where(mask_bl, start_b[:, None] + column_l[None, :], 0)
    if ids_t.numel() == 0:
        ids_bl = torch.full(mask_bl.shape, pad_id, dtype=torch.int64, device=ids_t.device)
    else:
        ids_bl = torch.where(mask_bl, ids_t[source_bl].to(torch.int64), pad_id)
    return ids_bl, mask_bl.to(torch.int64)
