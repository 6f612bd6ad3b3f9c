"""Which of an op's two ways runs: its Triton kernel or its reference. Decided here, and counted.

The rule looks at metadata alone, so it never waits for a device: the kernel runs where Triton is
installed, where the tensors are on a GPU, and where the op says that shapes and dtypes fit it.
"""

import importlib.util
from collections import Counter
from functools import cache

import torch

# (op, way) -> how often; what ran can be read here.
COUNTS: Counter[tuple[str, str]] = Counter()
# Devices whose tensors kernels take. Tests add "cpu", for Triton's interpreter.
DEVICES = {"cuda"}


def takes_triton(op: str, tensor: torch.Tensor, *, fits: bool) -> bool:
    """Say whether an op's kernel runs, and count the answer.

    Args:
        op: its folder's name.
        tensor: one of those that it reads; all are on one device.
        fits: whether its kernel takes these shapes and dtypes.
    """
    chosen = fits and tensor.device.type in DEVICES and _has_triton()
    COUNTS[op, "triton" if chosen else "reference"] += 1
    return chosen


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
