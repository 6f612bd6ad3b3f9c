"""Step 1g on a GPU: a precision that is good enough, shapes that fit, and whether graphs hold.

The fastest precision first; each is compared with fp32 on a sample, and the next safer one is taken
where it is not as good. How fast it is needs no trial: a GPU multiplies all of them faster than
fp32, and a sample of 64 rows would only time the launches.
"""

import time
from collections.abc import Callable

import numpy as np

from headrace.schemas.errors import JobError, ShardError
from headrace.schemas.job import Precision
from headrace.schemas.plan import BatchSize, MemoryFit, PackSize, Resolved, Road, ShapeGrid
from headrace.stages.cuda import Cuda
from headrace.stages.cuda_forward import CudaForward
from headrace.stages.forward import BatchResult, Forward, Runner
from headrace.stages.gate import compare
from headrace.stages.gpu_setup import headroom_bytes, pool_bytes, reader_bytes
from headrace.stages.isolate import is_out_of_memory
from headrace.stages.processor import multiplies_bf16
from headrace.stages.results import Results
from headrace.stages.sticky import end_if_sticky
from headrace.stages.text_road import TextChoice
from headrace.stages.trial import Bench, Sample, Trial, weights_bytes
from headrace.stages.wording import in_short

CANDIDATES: tuple[Precision, ...] = ("bf16", "fp16")  # fast first, safe last; then fp32
TIMED_RUNS = 3

Size = BatchSize | PackSize


def choose_on_cuda(
    bench: Bench, grid_of: Callable[[int], ShapeGrid], budget: int, text: TextChoice, cuda: Cuda
) -> Resolved:
    """Choose the road of a run on this worker's GPU.

    Args:
        bench: where the model is tried.
        grid_of: makes the grid of shapes for a budget of tokens.
        budget: tokens of a full batch, if they fit.
        text: the texts' road.
        cuda: the GPU.

    Raises:
        JobError: not even one row of the greatest length fits.
    """
    available, total = cuda.memory()
    with_cudf = text.tokenizer == "cudf"
    precision, forward, reason = choose_precision(bench)
    sample = bench.sample()
    room = MemoryFit(
        weights_bytes=weights_bytes(forward.module),
        activations_bytes=0,
        pool_bytes=pool_bytes(available)[1] if with_cudf else 0,
        texts_bytes=reader_bytes() if with_cudf else 0,
        headroom_bytes=headroom_bytes(total),
        available_bytes=available,
    )
    grid, memory = _fitting_grid(forward, sample, grid_of, budget, room, cuda)
    if grid.batch_tokens < budget:
        reason += f"; batches of {grid.batch_tokens:,} tokens, since {budget:,} do not fit"
    runner, why_eager = with_graphs(forward, sample, grid.sizes[0], cuda)
    if why_eager is not None:
        reason += f"; without CUDA graphs: {why_eager}"
    road = Road(
        device="cuda",
        precision=precision,
        layout=forward.layout,
        execution="eager" if why_eager is not None else "graphs",
        frame=text.frame,
        tokenizer=text.tokenizer,
        text_reason=text.reason,
        reason=reason,
        tokens_per_s=_tokens_per_s(runner, sample, grid.sizes[0]),
    )
    return Resolved(grid, road, forward.facts, room.weights_bytes, memory)


def choose_precision(bench: Bench) -> tuple[Precision, Forward, str]:
    """Choose the job's precision, or the fastest whose results on the sample are good enough.

    Returns:
        The precision, the model in it, and why.
    """
    wanted = bench.job.model.precision
    if wanted != "auto":
        return wanted, bench.forward(wanted), "as the job says"
    safe = _safe_trial(bench)
    refused = ""
    for precision in CANDIDATES if multiplies_bf16("cuda") else CANDIDATES[1:]:
        forward = bench.forward(precision)
        try:
            passed, measure = compare(safe.results, bench.try_out(forward).results)
        except ShardError as error:
            passed, measure = False, in_short(error)
        if passed:
            return precision, forward, measure + refused
        refused += f"; {precision} was tried: {measure}"
    return "fp32", bench.forward("fp32"), refused.removeprefix("; ")


def _safe_trial(bench: Bench) -> Trial:
    try:
        return bench.try_out(bench.forward("fp32"))
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        msg = (
            "model.precision: expected room for the model in fp32, to compare a faster precision "
            "with it, and the GPU has none. Choose one: bf16, fp16 or fp32."
        )
        raise JobError(msg) from error


def _fitting_grid(
    forward: Forward,
    sample: Sample,
    grid_of: Callable[[int], ShapeGrid],
    budget: int,
    room: MemoryFit,
    cuda: Cuda,
) -> tuple[ShapeGrid, MemoryFit]:
    """Halve the budget until a batch of the largest size fits, which is measured."""
    grid = grid_of(budget)
    while True:
        taken = _measured(forward, sample, grid.sizes[0], cuda)
        memory = room.model_copy(update={"activations_bytes": taken or 0})
        if taken is not None and memory.fits:
            return grid, memory
        if taken is None:
            cuda.give_back()
        budget //= 2
        smaller = grid_of(budget)
        if smaller.sizes[0] == grid.sizes[0]:
            raise JobError(_no_room(grid.sizes[0], memory))
        grid = smaller


def _measured(forward: Forward, sample: Sample, size: Size, cuda: Cuda) -> int | None:
    """Run a full batch and tell the bytes that it took; None where memory ran out."""
    try:
        return cuda.peak_bytes(lambda: sample.run_full(forward, size))
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return None


def _no_room(size: Size, memory: MemoryFit) -> str:
    need, there = memory.needed_bytes / 2**20, memory.available_bytes / 2**20
    return (
        f"model: expected one row of {size.tokens} tokens to fit on the GPU; it needs more than "
        f"{need:,.0f} MiB in all, and {there:,.0f} MiB are free. "
        "Choose a smaller model or model.max_length, or free the GPU."
    )


def with_graphs(
    forward: Forward, sample: Sample, size: Size, cuda: Cuda
) -> tuple[Runner, str | None]:
    """Capture one size and compare its replay with eager execution.

    Returns:
        What runs it, and why without graphs, if so.
    """
    runner = CudaForward(forward, cuda)
    try:
        runner.warm_up([size])
    except Exception as error:  # noqa: BLE001 - a model may do anything that can't be captured
        end_if_sticky(error)
        return CudaForward(forward, cuda), in_short(error)
    if not runner.captured:
        return runner, "they do not fit"
    eager, replay = (_as_results(sample.run_full(one, size), forward) for one in (forward, runner))
    passed, measure = compare(eager, replay, other="eager")
    return (runner, None) if passed else (CudaForward(forward, cuda), measure)


def _as_results(result: BatchResult, forward: Forward) -> Results:
    results = Results(result.finite.size, forward.facts)
    results.place(np.arange(result.finite.size), result)
    results.valid[:] = result.finite
    return results


def _tokens_per_s(runner: Runner, sample: Sample, size: Size) -> float:
    """Time full batches of the largest size; the best counts."""
    return size.tokens / min(_timed(runner, sample, size) for _ in range(TIMED_RUNS))


def _timed(runner: Runner, sample: Sample, size: Size) -> float:
    start = time.perf_counter()
    sample.run_full(runner, size)
    return time.perf_counter() - start
