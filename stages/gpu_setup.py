"""How a process that works on a GPU is set up: its environment, and how memory is split.

torch keeps an allocator of its own; cuDF and CuPy share a small RMM pool with a cap. (On RMM, torch
would hide its out-of-memory errors and its statistics, and its CUDA graphs would not hold their
memory.) Nothing spills: what cuDF has no room for, the host does. Nothing here imports torch.
"""

import os

from headrace.stages.cores import READERS

# Must be in the environment before these libraries are first used in a process.
GPU_ENVIRONMENT = {
    "CUDF_PER_THREAD_STREAM": "1",  # reader threads do not wait for each other
    "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1",
    "KVIKIO_NTHREADS": "64",  # object stores want many requests under way
    "PYTORCH_ALLOC_CONF": "expandable_segments:True",  # shapes vary: no fragments
}
OLD_ALLOCATOR_NAME = "PYTORCH_CUDA_ALLOC_CONF"  # torch takes both, and prefers the new one
# A piece of text that a reader works on at once. Far below the 2 GiB that 32-bit offsets reach, so
# that whatever a step or the tokenizer makes of it stays below, too.
PIECE_BYTES = 32 << 20
# What a reader holds of a piece outside of cuDF's pool: to find the plain rows, 10 times the text
# (measured on a CPU), and the tokens.
PIECE_COPIES = 12
POOL_SHARE, LEAST_POOL_BYTES, MOST_POOL_BYTES = 8, 1 << 30, 8 << 30
FIRST_SHARE = 4
ALIGNMENT = 256  # of RMM's pools
HEADROOM = 0.05  # of the device's memory, for fragments and for what libraries take


def gpu_environment() -> dict[str, str]:
    """Say what a GPU process's environment needs; what the user has set of it stays."""
    wanted = dict(GPU_ENVIRONMENT)
    if OLD_ALLOCATOR_NAME in os.environ:
        del wanted["PYTORCH_ALLOC_CONF"]
    return {name: os.environ.get(name, value) for name, value in wanted.items()}


def prepare_environment() -> None:
    """Set this process's environment, as long as no library of the GPU's has been used."""
    os.environ.update(gpu_environment())


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


def reader_bytes() -> int:
    """Say what all readers of a worker may hold of torch's memory while they tokenize."""
    return READERS * PIECE_COPIES * PIECE_BYTES
