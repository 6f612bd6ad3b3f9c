"""How a process that works on a GPU is set up: its environment, and how memory is split.

torch keeps an allocator of its own; cuDF and CuPy share a small RMM pool with a cap. (On RMM, torch
would hide its out-of-memory errors and its statistics, and its CUDA graphs would not hold their
memory.) The one spiller is cuDF's. Nothing here imports torch.
"""

import os

# Must be in the environment before these libraries are first used in a process.
GPU_ENVIRONMENT = {
    "CUDF_PER_THREAD_STREAM": "1",  # reader threads do not wait for each other
    "KVIKIO_NTHREADS": "64",  # object stores want many requests under way
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",  # shapes vary: no fragments
}
POOL_SHARE, LEAST_POOL_BYTES, MOST_POOL_BYTES = 8, 1 << 30, 8 << 30
FIRST_SHARE = 4
ALIGNMENT = 256  # of RMM's pools
HEADROOM = 0.05  # of the device's memory, for fragments and for what libraries take


def prepare_environment() -> None:
    """Ask for what is wanted, unless whoever started this process chose otherwise."""
    for name, value in GPU_ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def pool_bytes(free_bytes: int) -> tuple[int, int]:
    """Size the RMM pool of a GPU with this much free memory: what it starts with, and its cap.

    The cap is an eighth of the memory, from 1 GiB, where that is no more than half, to 8 GiB.
    """
    least = min(LEAST_POOL_BYTES, free_bytes // 2)
    most = max(least, min(MOST_POOL_BYTES, free_bytes // POOL_SHARE))
    most -= most % ALIGNMENT
    first = most // FIRST_SHARE
    return first - first % ALIGNMENT, most


def headroom_bytes(total_bytes: int) -> int:
    """Say what stays free of a GPU's memory, whatever runs on it."""
    return int(total_bytes * HEADROOM)
