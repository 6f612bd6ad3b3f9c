"""Which of an op's two ways runs: its kernel or its reference. Decided here, and counted.

The rule looks at metadata alone, so it never waits for a device: the kernel runs where Triton (or
CuPy, for CUDA C) works, where the tensors are on a GPU, and where the op says that shapes and
dtypes fit it.
"""

import importlib.util
import os
import shutil
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path

import torch

# (op, way) -> how often; what ran can be read here.
COUNTS: Counter[tuple[str, str]] = Counter()
# Devices whose tensors kernels take. Tests add "cpu", for Triton's interpreter.
DEVICES = {"cuda"}
COMPILERS = ("gcc", "clang")  # that it looks for


def takes_triton(op: str, tensor: torch.Tensor, *, fits: bool) -> bool:
    """Say whether an op's kernel runs, and count the answer.

    Args:
        op: its folder's name.
        tensor: one of those that it reads; all are on one device.
        fits: whether its kernel takes these shapes and dtypes.
    """
    chosen = fits and tensor.device.type in DEVICES and triton_lack() is None
    COUNTS[op, "triton" if chosen else "reference"] += 1
    return chosen


def takes_cuda(op: str, tensor: torch.Tensor, *, fits: bool) -> bool:
    """Say whether an op's kernel in CUDA C runs, and count the answer; as `takes_triton`."""
    chosen = fits and tensor.is_cuda and importlib.util.find_spec("cupy") is not None
    COUNTS[op, "cuda" if chosen else "reference"] += 1
    return chosen


@cache
def triton_lack() -> str | None:
    """Say what Triton lacks here; None where it works. It builds its launchers in C."""
    if importlib.util.find_spec("triton") is None:
        return "it is not installed"
    if not os.environ.get("CC") and not any(map(shutil.which, COMPILERS)):
        return f"there is no C compiler ({', '.join(COMPILERS)}, or one named by CC)"
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return None if headers.is_file() else f"Python's headers are missing ({headers})"
