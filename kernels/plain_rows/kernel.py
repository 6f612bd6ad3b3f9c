"""`plain_rows.cu` on a GPU, compiled by CuPy with NVRTC when it is first called."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

SOURCE = Path(__file__).with_name("plain_rows.cu")
THREADS = 128  # of a block
NO_LIMIT = 2**63 - 1


def run(bytes_t: torch.Tensor, edges_n1: torch.Tensor, longest_word: int | None) -> torch.Tensor:
    """Judge rows on torch's current stream; see reference.py."""
    import cupy

    rows = edges_n1.numel() - 1
    plain_n = torch.empty(rows, dtype=torch.bool, device=edges_n1.device)
    arrays = (cupy.asarray(tensor) for tensor in (bytes_t, edges_n1, plain_n))
    limit = NO_LIMIT if longest_word is None else longest_word
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        _compiled()((-(-rows // THREADS),), (THREADS,), (*arrays, rows, limit))
    return plain_n


@cache
def _compiled() -> Any:
    import cupy

    module = cupy.RawModule(code=SOURCE.read_text(), options=("--std=c++17",))
    return module.get_function("plain_rows")
