"""Every Triton kernel against its reference on a GPU: how far off, and how many bytes a second."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from headrace.kernels.bias_gelu import launch as bias_gelu
from headrace.kernels.bias_gelu import reference as bias_gelu_truth
from headrace.kernels.choice import COUNTS
from headrace.kernels.embed_layernorm import launch as embed_layernorm
from headrace.kernels.embed_layernorm import reference as embed_layernorm_truth
from headrace.kernels.pack_gather import launch as pack_gather
from headrace.kernels.pack_gather import reference as pack_gather_truth
from headrace.kernels.pad_gather import launch as pad_gather
from headrace.kernels.pad_gather import reference as pad_gather_truth
from headrace.kernels.pool_normalize import launch as pool_normalize
from headrace.kernels.pool_normalize import reference as pool_normalize_truth
from headrace.kernels.residual_layernorm import launch as residual_layernorm
from headrace.kernels.residual_layernorm import reference as residual_layernorm_truth
from headrace.kernels.softmax_topk import launch as softmax_topk
from headrace.kernels.softmax_topk import reference as softmax_topk_truth
from headrace.kernels.varlen_attention import launch as varlen_attention
from headrace.kernels.varlen_attention import reference as varlen_attention_truth

REPEATS = 10
LENGTH, WIDTH, HEADS, CLASSES, VOCABULARY = 128, 384, 12, 1_024, 30_522
WORST = 3e-2  # of bf16 results of size 1 to 4, against float32 sums


@dataclass(frozen=True)
class Case:
    """One kernel, its reference, and the least bytes that it must read and write."""

    op: str
    kernel: Callable[[], object]
    truth: Callable[[], object]
    moved_bytes: int


def compare_kernels(device: str, tokens: int) -> Iterator[tuple[str, bool | None, str]]:
    """Compare and time them on so many tokens, of MiniLM's sizes in bf16."""
    for case in _cases(device, tokens):
        before = COUNTS[case.op, "triton"]
        worst = _worst(case.kernel(), case.truth())
        ran = COUNTS[case.op, "triton"] > before
        seconds = [_seconds(work, device) for work in (case.kernel, case.truth)]
        speed = case.moved_bytes / seconds[0] / 1e9
        value = f"differs by {worst:.1e}, {speed:,.0f} GB/s, {seconds[1] / seconds[0]:.1f}x torch"
        yield case.op, ran and worst < WORST, value if ran else "its reference ran"


def _cases(device: str, tokens: int) -> Iterator[Case]:
    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device, dtype=torch.bfloat16)

    rows, half = tokens // LENGTH, 2
    ids = torch.randint(0, VOCABULARY, (tokens,), device=device)
    counts = torch.full((rows,), LENGTH - 2, device=device)
    starts = torch.arange(rows, device=device) * LENGTH
    ends = starts + counts
    special = torch.tensor([101], device=device)
    gather = (ids.int(), starts, counts, torch.arange(rows, device=device), LENGTH, 0)
    yield _case(
        "pad_gather", pad_gather, pad_gather_truth, (*gather, special, special), tokens * 20
    )
    edges = torch.arange(0, tokens + 1, LENGTH, device=device, dtype=torch.int32)
    laid = (ids.int(), starts, torch.arange(rows, device=device), edges, tokens, 0)
    yield _case(
        "pack_gather", pack_gather, pack_gather_truth, (*laid, special, special), tokens * 12
    )
    x, y, vector = random(tokens, WIDTH), random(tokens, WIDTH), random(WIDTH)
    state = x.numel() * half
    yield _case("bias_gelu", bias_gelu, bias_gelu_truth, (x, vector), 2 * state)
    normed = (x, vector, y, vector, vector, 1e-12)
    yield _case(
        "residual_layernorm", residual_layernorm, residual_layernorm_truth, normed, 3 * state
    )
    tables = (random(VOCABULARY, WIDTH), random(LENGTH, WIDTH), vector, vector, vector)
    looked = (ids, torch.arange(tokens, device=device) % LENGTH, *tables, 1e-12)
    yield _case("embed_layernorm", embed_layernorm, embed_layernorm_truth, looked, 3 * state)
    logits = random(tokens, CLASSES)
    yield _case(
        "softmax_topk", softmax_topk, softmax_topk_truth, (logits, 1), logits.numel() * half
    )
    qkv = random(tokens, 3, HEADS, WIDTH // HEADS)
    each = varlen_attention.query_blocks(np.full(rows, LENGTH), tokens // 64 + rows)
    packed = (qkv, edges, torch.from_numpy(each).to(device))
    yield _case("varlen_attention", varlen_attention, varlen_attention_truth, packed, 4 * state)
    yield Case(
        "pool_normalize",
        lambda: pool_normalize.pool_normalize(x, starts, ends, "mean", WIDTH, normalize=True)[:2],
        lambda: pool_normalize_truth.normalize(
            pool_normalize_truth.pool_ragged(x, starts, ends, "mean"), enabled=True
        )[:2],
        state + rows * WIDTH * 4,
    )


def _case(op: str, kernel: object, truth: object, given: tuple[object, ...], moved: int) -> Case:
    ours, own = getattr(kernel, op), getattr(truth, op)
    return Case(op, lambda: ours(*given), lambda: own(*given), moved)


def _worst(found: object, expected: object) -> float:
    """The largest difference of what two ways gave: a tensor, or the same number of them."""
    pairs = zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    )
    return max(float((left.double() - right.double()).abs().max()) for left, right in pairs)


def _seconds(work: Callable[[], object], device: str) -> float:
    best = float("inf")
    for _ in range(REPEATS if device == "cuda" else 1):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best
