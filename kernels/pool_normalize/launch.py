"""`pool_normalize` by the way that fits, from padded or from packed hidden states."""

import torch

from headrace.kernels.choice import takes_triton
from headrace.kernels.pool_normalize import reference
from headrace.kernels.pool_normalize.reference import Vectors
from headrace.schemas.job import Pooling, VectorDtype

MOST_WIDTH = 8_192
NUMBERS: dict[Pooling, int] = {"mean": 0, "cls": 1, "last": 2, "max": 3}
FORMS: dict[VectorDtype, int] = {"float32": 0, "float16": 0, "int8": 1, "binary": 2}
DTYPES: dict[VectorDtype, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "int8": torch.int8,
    "binary": torch.uint8,
}


def pool_normalize(
    hidden_th: torch.Tensor,
    starts_b: torch.Tensor,
    ends_b: torch.Tensor,
    pooling: Pooling,
    width: int,
    *,
    normalize: bool,
    dtype: VectorDtype = "float32",
) -> Vectors:
    """Pool each row's tokens, cut the vector, scale it to length 1, write it in a dtype.

    Args:
        hidden_th: (T, H) of any float dtype.
        starts_b: (B,) int32 or int64, each row's first token.
        ends_b: (B,) likewise, behind its last token; its vector is zeros without one.
        pooling: mean, cls (the first token), last or max.
        width: W, how many of the H values are kept.
        normalize: whether the vector is scaled.
        dtype: float32, float16, int8 with a scale a row, or binary.

    Returns:
        See `Vectors`. The kernel takes W up to 8,192; of a row that is not finite, only the flag
        means anything.
    """
    if not takes_triton(
        "pool_normalize", hidden_th, fits=_fits(hidden_th, starts_b, ends_b, width)
    ):
        pooled = reference.pool_ragged(hidden_th, starts_b, ends_b, pooling)
        return reference.normalize(pooled[:, :width], enabled=normalize, dtype=dtype)
    return _by_kernel(hidden_th, starts_b, ends_b, pooling, width, normalize=normalize, dtype=dtype)


def _by_kernel(
    hidden_th: torch.Tensor,
    starts_b: torch.Tensor,
    ends_b: torch.Tensor,
    pooling: Pooling,
    width: int,
    *,
    normalize: bool,
    dtype: VectorDtype,
) -> Vectors:
    from headrace.kernels.pool_normalize.kernel import pool_normalize_kernel

    rows = starts_b.numel()
    values_bw, finite_b, scales_b = _room(rows, width, dtype, hidden_th.device)
    pool_normalize_kernel[(rows,)](
        hidden_th,
        starts_b,
        ends_b,
        values_bw,
        finite_b,
        scales_b,
        hidden_th.stride(0),
        width,
        POOLING=NUMBERS[pooling],
        NORMALIZE=normalize,
        FORM=FORMS[dtype],
        BLOCK=max(16, 1 << (width - 1).bit_length()),
    )
    return Vectors(values_bw, finite_b, scales_b if dtype == "int8" else None)


def pool_normalize_padded(
    hidden_blh: torch.Tensor,
    mask_bl: torch.Tensor,
    pooling: Pooling,
    width: int,
    *,
    normalize: bool,
    dtype: VectorDtype = "float32",
) -> Vectors:
    """Do the same to padded states (B, L, H) with a mask (B, L): 1 for tokens, which come first."""
    rows, length, size = hidden_blh.shape
    flat = hidden_blh.reshape(rows * length, size)
    fits = _fits(flat, mask_bl, mask_bl, width)
    if not takes_triton("pool_normalize", hidden_blh, fits=fits):
        pooled = reference.pool(hidden_blh, mask_bl, pooling)
        return reference.normalize(pooled[:, :width], enabled=normalize, dtype=dtype)
    starts_b = torch.arange(0, rows * length, length, device=hidden_blh.device)
    ends_b = starts_b + mask_bl.sum(1)
    return _by_kernel(flat, starts_b, ends_b, pooling, width, normalize=normalize, dtype=dtype)


def _room(
    rows: int, width: int, dtype: VectorDtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    columns = -(-width // 8) if dtype == "binary" else width
    return (
        torch.empty((rows, columns), dtype=DTYPES[dtype], device=device),
        torch.empty(rows, dtype=torch.bool, device=device),
        torch.empty(rows if dtype == "int8" else 0, dtype=torch.float32, device=device),
    )


def _fits(
    hidden_th: torch.Tensor, starts_b: torch.Tensor, ends_b: torch.Tensor, width: int
) -> bool:
    return (
        starts_b.numel() > 0
        and hidden_th.numel() > 0
        and 0 < width <= min(MOST_WIDTH, hidden_th.shape[1])
        and hidden_th.stride(1) == 1
        and hidden_th.dtype != torch.float64
        and starts_b.is_contiguous()
        and ends_b.is_contiguous()
    )
