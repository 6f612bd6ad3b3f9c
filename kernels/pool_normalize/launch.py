"""`pool_normalize` by the way that fits: padded or packed hidden states to one vector a row."""

import torch

from headrace.kernels.choice import takes_triton
from headrace.kernels.pool_normalize import reference
from headrace.schemas.job import Pooling

MOST_WIDTH = 8_192
NUMBERS: dict[Pooling, int] = {"mean": 0, "cls": 1, "last": 2, "max": 3}


def pool_normalize(
    hidden_th: torch.Tensor,
    starts_b: torch.Tensor,
    counts_b: torch.Tensor,
    pooling: Pooling,
    width: int,
    *,
    normalize: bool,
    dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pool each row's tokens, cut the vector, scale it to length 1, cast it, say if it is finite.

    Args:
        hidden_th: (T, H) of any float dtype; padded states (B, L, H) as (B * L, H).
        starts_b: (B,) int64, each row's first token.
        counts_b: (B,) int64, how many it has; its vector is zeros without one.
        pooling: mean, cls (the first token), last or max.
        width: W, how many of the H values are kept.
        normalize: whether the vector is scaled.
        dtype: of the result.

    Returns:
        vectors (B, W) of `dtype` and finite (B,) bool. The kernel takes W up to 8,192 and float32
        or float16 results.
    """
    fits = dtype in (torch.float32, torch.float16) and _fits(hidden_th, starts_b, counts_b, width)
    if not takes_triton("pool_normalize", hidden_th, fits=fits):
        pooled = reference.pool_ragged(hidden_th, starts_b, counts_b, pooling)
        return reference.normalize(pooled[:, :width], enabled=normalize, dtype=dtype)
    from headrace.kernels.pool_normalize.kernel import pool_normalize_kernel

    rows = starts_b.numel()
    out_bw = torch.empty((rows, width), dtype=dtype, device=hidden_th.device)
    finite_b = torch.empty(rows, dtype=torch.bool, device=hidden_th.device)
    pool_normalize_kernel[(rows,)](
        hidden_th,
        starts_b,
        counts_b,
        out_bw,
        finite_b,
        hidden_th.stride(0),
        width,
        POOLING=NUMBERS[pooling],
        NORMALIZE=normalize,
        BLOCK=max(16, 1 << (width - 1).bit_length()),
    )
    return out_bw, finite_b


def _fits(
    hidden_th: torch.Tensor, starts_b: torch.Tensor, counts_b: torch.Tensor, width: int
) -> bool:
    return (
        starts_b.numel() > 0
        and hidden_th.numel() > 0
        and 0 < width <= min(MOST_WIDTH, hidden_th.shape[1])
        and hidden_th.stride(1) == 1
        and hidden_th.dtype != torch.float64
        and starts_b.is_contiguous()
        and counts_b.is_contiguous()
    )
