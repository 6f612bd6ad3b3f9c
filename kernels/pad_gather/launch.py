"""`pad_gather` by the way that fits."""

import torch

from headrace.kernels.choice import takes_triton
from headrace.kernels.pad_gather import reference

BLOCK = 256


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
    """See reference.py. The kernel takes contiguous tensors and one row at least."""
    given = (ids_t, starts_n, counts_n, rows_b, before_p, behind_s)
    fits = rows_b.numel() > 0 and all(tensor.is_contiguous() for tensor in given)
    if not takes_triton("pad_gather", rows_b, fits=fits):
        return reference.pad_gather(
            ids_t, starts_n, counts_n, rows_b, length, pad_id, before_p, behind_s
        )
    from headrace.kernels.pad_gather.kernel import pad_gather_kernel

    shape = (rows_b.numel(), length)
    ids_bl = torch.empty(shape, dtype=torch.int64, device=rows_b.device)
    mask_bl = torch.empty_like(ids_bl)
    block = min(BLOCK, 1 << max(0, length - 1).bit_length())
    pad_gather_kernel[(shape[0], -(-length // block))](
        *given,
        ids_bl,
        mask_bl,
        length,
        pad_id,
        FIRST=before_p.numel(),
        LAST=behind_s.numel(),
        BLOCK=block,
    )
    return ids_bl, mask_bl
