"""`plain_rows` by the way that fits."""

import torch

from headrace.kernels.choice import takes_cuda
from headrace.kernels.plain_rows import reference


def plain_rows(
    bytes_t: torch.Tensor, edges_n1: torch.Tensor, longest_word: int | None = None
) -> torch.Tensor:
    """See reference.py. The kernel takes contiguous tensors, and one row and byte at least."""
    fits = (
        bytes_t.numel() > 0
        and edges_n1.numel() > 1
        and (bytes_t.dtype, edges_n1.dtype) == (torch.uint8, torch.int64)
        and bytes_t.is_contiguous()
        and edges_n1.is_contiguous()
    )
    if not takes_cuda("plain_rows", bytes_t, fits=fits):
        return reference.plain_rows(bytes_t, edges_n1, longest_word)
    from headrace.kernels.plain_rows.kernel import run

    return run(bytes_t, edges_n1, longest_word)
