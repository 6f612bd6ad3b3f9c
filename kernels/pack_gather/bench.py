"""`pack_gather` of rows of 128 tokens, two special ones around each."""

import torch

from headrace.kernels.case import GATHERED, LENGTH, VOCABULARY, Case, case
from headrace.kernels.pack_gather import launch, reference


def make(device: str, tokens: int) -> Case:
    """Reads ids (T,) int32, and writes ids and places (K,) int32."""
    rows = GATHERED * tokens // LENGTH
    own = LENGTH - 2
    ids = torch.randint(0, VOCABULARY, (rows * own,), device=device, dtype=torch.int32)
    order = torch.randperm(rows, device=device)
    starts = torch.arange(rows, device=device) * own
    edges = torch.arange(0, rows * LENGTH + 1, LENGTH, device=device, dtype=torch.int32)
    special = torch.tensor([101], device=device)
    given = (ids, starts, order, edges, rows * LENGTH, 0, special, special)
    return case("pack_gather", launch.pack_gather, reference.pack_gather, given)
