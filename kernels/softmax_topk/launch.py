"""`softmax_topk` by the way that fits."""

import torch

from headrace.kernels.choice import takes_triton
from headrace.kernels.softmax_topk import reference
from headrace.schemas.plan import Activation

MOST_CLASSES, MOST_K = 32_768, 32
LARGEST_BLOCK = 1_024


def softmax_topk(
    logits_bc: torch.Tensor, k: int, *, activation: Activation = "softmax"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """See reference.py. The kernel takes up to 32,768 classes and k up to 32.

    Of a row that is not finite, only the flag means anything: the two ways may differ in the rest.
    """
    rows, classes = logits_bc.shape
    fits = (
        rows > 0
        and 0 < k <= min(classes, MOST_K)
        and classes <= MOST_CLASSES
        and logits_bc.is_floating_point()
        and logits_bc.dtype != torch.float64
        and logits_bc.stride(1) == 1
    )
    if not takes_triton("softmax_topk", logits_bc, fits=fits):
        return reference.softmax_topk(logits_bc, k, activation=activation)
    from headrace.kernels.softmax_topk.kernel import softmax_topk_kernel

    device = logits_bc.device
    scores_bk = torch.empty((rows, k), dtype=torch.float32, device=device)
    classes_bk = torch.empty((rows, k), dtype=torch.int64, device=device)
    finite_b = torch.empty(rows, dtype=torch.bool, device=device)
    softmax_topk_kernel[(rows,)](
        logits_bc,
        scores_bk,
        classes_bk,
        finite_b,
        classes,
        logits_bc.stride(0),
        K=k,
        SIGMOID=activation == "sigmoid",
        BLOCK=min(LARGEST_BLOCK, max(16, 1 << (classes - 1).bit_length())),
    )
    return scores_bk, classes_bk, finite_b
