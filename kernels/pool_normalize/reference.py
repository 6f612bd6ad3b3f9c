"""The readable truth of `pool_normalize`."""

import torch

from headrace.schemas.job import Pooling

# sentence-transformers' floors (models/Pooling.py, torch.nn.functional.normalize): a row without a
# token or with a zero vector gives zeros, not NaN.
MIN_COUNT = 1e-9
MIN_NORM = 1e-12


def pool(hidden_blh: torch.Tensor, mask_bl: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Pool hidden states (B, L, H) of any float dtype over `mask_bl` (B, L) to (B, H) float32.

    mean: over the row's tokens. cls: the first token. last: the row's last token. max: per feature
    over the row's tokens, 0 for a row without one.
    """
    hidden = hidden_blh.float()
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        last_b = (mask_bl.sum(1) - 1).clamp(min=0)
        return hidden[torch.arange(hidden.shape[0], device=hidden.device), last_b]
    keep_bl1 = mask_bl[..., None].bool()
    if pooling == "max":
        most = hidden.masked_fill(~keep_bl1, -torch.inf).amax(1)
        return torch.where(mask_bl.sum(1, keepdim=True) > 0, most, 0.0)
    # masked_fill, not a product: 0 x inf in a padded place would spoil the row.
    total = hidden.masked_fill(~keep_bl1, 0.0).sum(1)
    return total / mask_bl.sum(1, keepdim=True).clamp(min=MIN_COUNT)


def pool_ragged(
    hidden_th: torch.Tensor, starts_b: torch.Tensor, counts_b: torch.Tensor, pooling: Pooling
) -> torch.Tensor:
    """Pool rows of tokens that lie anywhere in (T, H) to (B, H) float32, as `pool` does.

    Row b has `counts_b[b]` tokens from `starts_b[b]` on; without one, its vector is zeros.
    """
    longest = max(1, int(counts_b.max())) if counts_b.numel() else 1
    column_l = torch.arange(longest, device=hidden_th.device)
    mask_bl = column_l[None, :] < counts_b[:, None]
    at_bl = torch.where(mask_bl, starts_b[:, None] + column_l[None, :], 0)
    pooled = pool(hidden_th[at_bl], mask_bl.to(torch.int64), pooling)
    return torch.where(counts_b[:, None] > 0, pooled, 0.0)


def normalize(
    vectors_bh: torch.Tensor, *, enabled: bool, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale rows (B, H) float32 to length 1 where enabled, cast them, and say which are finite.

    Returns:
        vectors (B, H) of `dtype`, and finite (B,) bool: every value of the row is a number, in
        `dtype` too. A vector whose squares overflow float32 counts as not finite once it is
        normalised.
    """
    if enabled:
        norm_b1 = torch.linalg.vector_norm(vectors_bh, dim=1, keepdim=True)
        vectors_bh = (vectors_bh / norm_b1.clamp(min=MIN_NORM)).to(dtype)
        return vectors_bh, (torch.isfinite(vectors_bh) & torch.isfinite(norm_b1)).all(1)
    vectors_bh = vectors_bh.to(dtype)
    return vectors_bh, torch.isfinite(vectors_bh).all(1)
