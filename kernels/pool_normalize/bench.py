"""`pool_normalize`: the mean of rows of MiniLM's hidden states."""

import torch

from headrace.kernels.case import LENGTH, WIDTH, Case, bytes_of, random
from headrace.kernels.pool_normalize import launch, reference


def make(device: str, tokens: int) -> Case:
    """Reads hidden states (T, H), and writes a vector of float32 and a flag a row."""
    hidden = random(device, tokens, WIDTH)
    edges = torch.arange(0, tokens + 1, LENGTH, device=device, dtype=torch.int32)
    starts, ends = edges[:-1].clone(), edges[1:].clone()
    return Case(
        "pool_normalize",
        lambda: launch.pool_normalize(hidden, starts, ends, "mean", WIDTH, normalize=True),
        lambda: reference.normalize(
            reference.pool_ragged(hidden, starts, ends, "mean"), enabled=True
        ),
        bytes_of(hidden, starts, ends),
    )
