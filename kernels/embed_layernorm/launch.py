"""`embed_layernorm` by the way that fits."""

import torch

from headrace.kernels.choice import takes_triton
from headrace.kernels.embed_layernorm import reference

MOST_WIDTH = 8_192


def embed_layernorm(
    ids_t: torch.Tensor,
    positions_t: torch.Tensor,
    words_vh: torch.Tensor,
    places_ph: torch.Tensor,
    kind_h: torch.Tensor,
    gain_h: torch.Tensor,
    shift_h: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """See reference.py. The kernel takes contiguous tensors, and rows of up to 8,192 values.

    It does not check ids and positions, which the reference does: one outside of its table reads
    other memory.
    """
    tables = (words_vh, places_ph, kind_h, gain_h, shift_h)
    fits = (
        ids_t.numel() > 0
        and words_vh.shape[-1] <= MOST_WIDTH
        and ids_t.is_contiguous()
        and positions_t.is_contiguous()
        and all(tensor.is_contiguous() and tensor.dtype != torch.float64 for tensor in tables)
    )
    if not takes_triton("embed_layernorm", ids_t, fits=fits):
        return reference.embed_layernorm(ids_t, positions_t, *tables, eps)
    from headrace.kernels.embed_layernorm.kernel import embed_layernorm_kernel

    tokens, width = ids_t.numel(), words_vh.shape[-1]
    out_th = torch.empty((tokens, width), dtype=words_vh.dtype, device=words_vh.device)
    block = max(16, 1 << (width - 1).bit_length())
    embed_layernorm_kernel[(tokens,)](ids_t, positions_t, *tables, out_th, width, eps, BLOCK=block)
    return out_th
