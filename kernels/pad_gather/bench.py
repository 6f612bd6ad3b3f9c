"""`pad_gather` of full rows, two special tokens around each."""

import torch

from headrace.kernels.case import GATHERED, LENGTH, VOCABULARY, Case, case
from headrace.kernels.pad_gather import launch, reference


def make(device: str, tokens: int) -> Case:
    """Reads ids (T,) int32, and writes ids and mask (B, L) int64."""
    rows = GATHERED * tokens // LENGTH
    own = LENGTH - 2
    ids = torch.randint(0, VOCABULARY, (rows * own,), device=device, dtype=torch.int32)
    order = torch.randperm(rows, device=device)
    starts, counts = torch.arange(rows, device=device) * own, torch.full_like(order, own)
    special = torch.tensor([101], device=device)
    given = (ids, starts, counts, order, LENGTH, 0, special, special)
    return case("pad_gather", launch.pad_gather, reference.pad_gather, given)
