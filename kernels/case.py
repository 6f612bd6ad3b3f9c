"""What each op's bench.py makes: its kernel and its reference on tensors of MiniLM's sizes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

# MiniLM's sizes (Wang et al. 2020, arXiv 2002.10957; config.json of all-MiniLM-L6-v2).
LENGTH, WIDTH, HEADS, VOCABULARY = 128, 384, 12, 30_522
CLASSES = 1_024
DTYPE = torch.bfloat16
GATHERED = 64  # times as many tokens where one is but a few bytes, so that caches do not hold them
Result = torch.Tensor | tuple[torch.Tensor | None, ...]


@dataclass(frozen=True)
class Case:
    """One op, what it is given, and the least work that takes."""

    op: str
    kernel: Callable[[], Result]  # by the launcher
    truth: Callable[[], Result]  # by the reference
    read_bytes: int  # each input that must be read, once
    flop: int = 0  # of matrix products; 0 where memory is the limit

    def moved_bytes(self, result: Result) -> int:
        """Count what must be read, and each value of the result, written once."""
        parts = result if isinstance(result, tuple) else (result,)
        return self.read_bytes + bytes_of(*(part for part in parts if part is not None))


def case(
    op: str,
    kernel: Callable[..., Result],
    truth: Callable[..., Result],
    given: tuple[object, ...],
    *,
    read_bytes: int | None = None,
    flop: int = 0,
) -> Case:
    """Make a case that gives both the same; what is read is every given tensor, unless said."""
    tensors = (one for one in given if isinstance(one, torch.Tensor))
    return Case(
        op,
        lambda: kernel(*given),
        lambda: truth(*given),
        bytes_of(*tensors) if read_bytes is None else read_bytes,
        flop,
    )


def bytes_of(*tensors: torch.Tensor) -> int:
    """Count the bytes of tensors' values."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def random(device: str, *shape: int) -> torch.Tensor:
    """Make a tensor of normal values."""
    return torch.randn(*shape, device=device, dtype=DTYPE)
