"""Every kernel against its reference: how far off, and how fast, of what the device can do.

.venv/bin/python scripts/gpu_check_kernels.py    # on a GPU; on a CPU it times the references
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from headrace.kernels.bias_gelu import bench as bias_gelu
from headrace.kernels.case import Case, Result
from headrace.kernels.choice import COUNTS
from headrace.kernels.embed_layernorm import bench as embed_layernorm
from headrace.kernels.pack_gather import bench as pack_gather
from headrace.kernels.pad_gather import bench as pad_gather
from headrace.kernels.plain_rows import bench as plain_rows
from headrace.kernels.pool_normalize import bench as pool_normalize
from headrace.kernels.residual_layernorm import bench as residual_layernorm
from headrace.kernels.softmax_topk import bench as softmax_topk
from headrace.kernels.varlen_attention import bench as varlen_attention

BENCHES = (
    pad_gather,
    pack_gather,
    plain_rows,
    embed_layernorm,
    varlen_attention,
    residual_layernorm,
    bias_gelu,
    pool_normalize,
    softmax_topk,
)
# Enough that a GPU's caches (50 MiB of an H200) do not hold what is moved.
TOKENS = {"cuda": 262_144, "cpu": 4_096}
MATRIX = {"cuda": 8_192, "cpu": 512}
COPIED_BYTES = {"cuda": 1 << 30, "cpu": 1 << 26}
LAUNCHES = {"cuda": 20, "cpu": 1}  # between two waits, so that launching is not what is timed
REPEATS = 3
WORST = 3e-2  # of bf16 results of size 1 to 4, against float32 sums

Line = tuple[str, bool | None, str]


@dataclass(frozen=True)
class Ceilings:
    """What a device does at best."""

    dtype: torch.dtype  # of the matrices
    flop_per_s: float
    bytes_per_s: float  # within its memory, reads and writes


def measure_ceilings(device: str) -> Ceilings:
    """Multiply large matrices, and copy within the device's memory."""
    size, dtype = MATRIX[device], torch.bfloat16 if device == "cuda" else torch.float32
    left, right = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
    multiply_s = seconds(lambda: left @ right, device)
    source = torch.zeros(COPIED_BYTES[device], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy_s = seconds(lambda: target.copy_(source), device)
    return Ceilings(dtype, 2 * size**3 / multiply_s, 2 * source.numel() / copy_s)


def compare_kernels(device: str, tokens: int, ceilings: Ceilings) -> Iterator[Line]:
    """Compare and time each on tensors of so many tokens, of MiniLM's sizes in bf16.

    On a GPU a line holds where the kernel itself ran, and its results are near its reference's.
    """
    for bench in BENCHES:
        case = bench.make(device, tokens)
        before = _ran(case.op)
        found = case.kernel()
        ran = _ran(case.op) > before
        worst = _worst(found, case.truth())
        ours_s, torch_s = (seconds(work, device) for work in (case.kernel, case.truth))
        value = f"differs by {worst:.1e}, {_speed(case, found, ours_s, ceilings)}"
        if not ran:
            yield case.op, False if device == "cuda" else None, f"its reference ran: {value}"
        else:
            yield case.op, worst < WORST, f"{value}, {torch_s / ours_s:.1f}x torch"


def _ran(op: str) -> int:
    return COUNTS[op, "triton"] + COUNTS[op, "cuda"]


def _speed(case: Case, result: Result, took_s: float, ceilings: Ceilings) -> str:
    if case.flop:
        rate = case.flop / took_s
        return f"{rate / 1e12:.2f} TFLOP/s, {rate / ceilings.flop_per_s:.0%} of matrices"
    rate = case.moved_bytes(result) / took_s
    return f"{rate / 1e9:,.1f} GB/s, {rate / ceilings.bytes_per_s:.0%} of a copy"


def _worst(found: Result, expected: Result) -> float:
    """The largest difference of what two ways gave: a tensor, or the same number of them."""
    pairs = zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    )
    return max(
        float((left.double() - right.double()).abs().max())
        for left, right in pairs
        if left is not None and right is not None
    )


def seconds(work: Callable[[], object], device: str) -> float:
    """Time some work: the best of a few times, each of several launches on a GPU."""
    best, launches = float("inf"), LAUNCHES[device]
    for _ in range(REPEATS):
        _wait(device)
        start = time.perf_counter()
        for _ in range(launches):
            work()
        _wait(device)
        best = min(best, (time.perf_counter() - start) / launches)
    return best


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> int:
    """Print a table."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ceilings = measure_ceilings(device)
    print(
        f"{device}: {ceilings.flop_per_s / 1e12:.2f} TFLOP/s of {ceilings.dtype} matrices, ", end=""
    )
    print(f"{ceilings.bytes_per_s / 1e9:,.1f} GB/s copied")
    failed = 0
    for op, holds, value in compare_kernels(device, TOKENS[device], ceilings):
        failed += holds is False
        print(f"{op:20} {'FAILED' if holds is False else 'ok' if holds else '':8} {value}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
