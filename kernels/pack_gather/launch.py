"""`pack_gather` by the way that fits."""

import torch

from headrace.kernels.choice import takes_triton
from headrace.kernels.pack_gather import reference

BLOCK = 256


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
    """See reference.py. The kernel takes contiguous tensors, and one row and token at least."""
    given = (ids_t, starts_n, rows_b, edges_b1, before_p, behind_s)
    fits = rows_b.numel() > 0 and tokens > 0 and all(tensor.is_contiguous() for tensor in given)
    if not takes_triton("pack_gather", rows_b, fits=fits):
        return reference.pack_gather(
            ids_t, starts_n, rows_b, edges_b1, tokens, pad_id, before_p, behind_s
        )
    from headrace.kernels.pack_gather.kernel import pack_gather_kernel

    ids_k = torch.empty(tokens, dtype=torch.int32, device=rows_b.device)
    places_k = torch.empty_like(ids_k)
    rows = rows_b.numel()
    pack_gather_kernel[(-(-tokens // BLOCK),)](
        *given,
        ids_k,
        places_k,
        tokens,
        rows,
        pad_id,
        FIRST=before_p.numel(),
        LAST=behind_s.numel(),
        STEPS=rows.bit_length(),
        BLOCK=BLOCK,
    )
    return ids_k, places_k
