"""`plain_rows` of rows of letters and spaces, each of 256 bytes."""

import torch

from headrace.kernels.case import GATHERED, Case, case
from headrace.kernels.plain_rows import launch, reference

ROW_BYTES = 256


def make(device: str, tokens: int) -> Case:
    """Reads the bytes (T,) and the edges (N + 1,), and writes a flag a row."""
    rows = GATHERED * tokens // ROW_BYTES
    data = torch.randint(0x61, 0x7B, (rows * ROW_BYTES,), device=device, dtype=torch.uint8)
    data[::6] = 0x20
    edges = torch.arange(rows + 1, device=device) * ROW_BYTES
    return case("plain_rows", launch.plain_rows, reference.plain_rows, (data, edges, 100))
