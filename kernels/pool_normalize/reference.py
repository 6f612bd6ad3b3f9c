"""The readable truth of `pool_normalize`."""

from typing import NamedTuple

import torch

from headrace.schemas.job import Pooling, VectorDtype

# sentence-transformers' floors (models/Pooling.py, torch.nn.functional.normalize): a row without a
# token or with a zero vector gives zeros, not NaN.
MIN_COUNT = 1e-9
MIN_NORM = 1e-12
LARGEST_INT8 = 127.0
MIN_SCALE = 1e-30


class Vectors(NamedTuple):
    """One vector a row.

    values: (B, W) float32, float16 or int8; or (B, W / 8 rounded up) uint8, the bits of a row, the
        first value's the highest of the first byte.
    finite: (B,) bool, whether every value of the row is a number, in the dtype too. A vector whose
        squares overflow float32 counts as not finite once it is normalised.
    scales: (B,) float32, what int8 values are to be multiplied by; None otherwise.
    """

    values: torch.Tensor
    finite: torch.Tensor
    scales: torch.Tensor | None = None


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
    hidden_th: torch.Tensor, starts_b: torch.Tensor, ends_b: torch.Tensor, pooling: Pooling
) -> torch.Tensor:
    """Pool rows of tokens that lie anywhere in (T, H) to (B, H) float32, as `pool` does.

    Row b has the tokens from `starts_b[b]` to `ends_b[b]`; without one, its vector is zeros.
    """
    counts_b = ends_b - starts_b
    longest = max(1, int(counts_b.max())) if counts_b.numel() else 1
    column_l = torch.arange(longest, device=hidden_th.device)
    mask_bl = column_l[None, :] < counts_b[:, None]
    at_bl = torch.where(mask_bl, starts_b[:, None] + column_l[None, :], 0)
    pooled = pool(hidden_th[at_bl], mask_bl.to(torch.int64), pooling)
    return torch.where(counts_b[:, None] > 0, pooled, 0.0)


def normalize(
    vectors_bh: torch.Tensor, *, enabled: bool, dtype: VectorDtype = "float32"
) -> Vectors:
    """Scale rows (B, H) float32 to length 1 where enabled, and write them in a dtype.

    int8: a row's largest value becomes 127 or -127; halves are rounded up. binary: a bit says
    whether a value is above 0, as sentence-transformers' `ubinary`.
    """
    finite_b = torch.ones(vectors_bh.shape[0], dtype=torch.bool, device=vectors_bh.device)
    if enabled:
        norm_b1 = torch.linalg.vector_norm(vectors_bh, dim=1, keepdim=True)
        vectors_bh = vectors_bh / norm_b1.clamp(min=MIN_NORM)
        finite_b = torch.isfinite(norm_b1[:, 0])
    if dtype == "float16":
        vectors_bh = vectors_bh.half()
    finite_b = finite_b & torch.isfinite(vectors_bh).all(1)
    if dtype == "int8":
        scale_b = vectors_bh.abs().amax(1) / LARGEST_INT8
        whole = torch.floor(vectors_bh / scale_b[:, None].clamp(min=MIN_SCALE) + 0.5)
        return Vectors(torch.nan_to_num(whole).to(torch.int8), finite_b, scale_b)
    if dtype == "binary":
        return Vectors(_packed_bits(vectors_bh > 0), finite_b)
    return Vectors(vectors_bh, finite_b)


def _packed_bits(bits_bw: torch.Tensor) -> torch.Tensor:
    """Pack eight bits a byte, the first one the highest, as numpy.packbits does."""
    padded = torch.nn.functional.pad(bits_bw, (0, -bits_bw.shape[1] % 8)).to(torch.int32)
    shifts = torch.arange(7, -1, -1, device=bits_bw.device, dtype=torch.int32)
    return (padded.view(bits_bw.shape[0], -1, 8) << shifts).sum(2).to(torch.uint8)
