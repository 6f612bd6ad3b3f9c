"""Packed against bucketed against transformers with SDPA: the same rows, one after the other."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from gpu_check_run import flop_per_token

from headrace.schemas.job import ModelSpec, Precision
from headrace.schemas.plan import ResultFacts, ShapeGrid
from headrace.stages.cuda import Cuda
from headrace.stages.cuda_forward import CudaForward
from headrace.stages.forward import Forward
from headrace.stages.grid import batches_of, make_grid, pack_sizes
from headrace.stages.handover import RaggedOnDevice, put
from headrace.stages.isolate import run_batches
from headrace.stages.load_model import load_module
from headrace.stages.model_folder import ModelFolder, open_model_folder
from headrace.stages.packed_forward import pack_forward
from headrace.stages.ragged import ragged_of
from headrace.stages.resolve import MAX_SHAPES
from headrace.stages.results import Results
from headrace.stages.shapes import choose_grid
from headrace.stages.tokenize import load_tokenizer, tokenize

REPEATS = 3
LEAST = {"fp32": 0.99999, "bf16": 0.999, "fp16": 0.999}  # cosine to transformers in fp32
Way = Forward | CudaForward
Lines = Iterator[tuple[str, bool | None, str]]


def compare_layouts(
    folder: Path,
    rows: Path,
    device: str,
    cuda: Cuda | None,
    *,
    copies: int,
    batch_tokens: int,
    precision: Precision,
    rate: float | None,
) -> Lines:
    """Run the rows' tokens, `copies` times over, by each way; a GPU's ways run as graphs.

    `rate` is FLOP/s of matrices, which a way's share is of.
    """
    spec = ModelSpec(path=str(folder), task="embed")
    model = open_model_folder(spec)
    texts = pq.read_table(rows)["text"].combine_chunks().cast(pa.large_string()).drop_null()
    tokens = tokenize(texts, load_tokenizer(model), lowercase=model.lowercase)
    lengths = tokens.lengths
    ragged = put(ragged_of(tokens, np.ones(lengths.size, np.bool_), model.max_length), device)
    shapes = choose_grid(
        lengths,
        max_length=model.max_length,
        max_shapes=MAX_SHAPES["cuda"],
        batch_tokens=batch_tokens,
        multiple=8,
    )
    packs = pack_sizes(lengths, max_length=model.max_length, batch_tokens=batch_tokens)
    sample = (lengths, batch_tokens, lengths.size * copies)
    bucketed, packed = make_grid(*sample, shapes=shapes), make_grid(*sample, packs=packs)

    def load(asked: Precision) -> Forward:
        return _forward(spec, model, device, asked)

    expected = _vectors(load("fp32"), ragged, lengths, bucketed)
    plain = load(precision)
    ways: dict[str, tuple[Way, ShapeGrid]] = {
        "transformers, SDPA": (plain, bucketed),
        "bucketed": (_captured(plain, bucketed, cuda), bucketed),
        "packed": (_captured(pack_forward(plain), packed, cuda), packed),
    }
    flop = flop_per_token(folder, float(lengths.mean()))
    useful, first_s = int(lengths.sum()) * copies, None
    for name, (runner, grid) in ways.items():
        cosine = float((_vectors(runner, ragged, lengths, grid) * expected).sum(1).min())
        best_s = min(_seconds(runner, ragged, lengths, grid, copies) for _ in range(REPEATS))
        first_s = first_s or best_s
        value = f"{useful / best_s:,.0f} tokens/s, {first_s / best_s:.2f}x transformers"
        if rate is not None:
            value += f", {useful * flop / best_s / rate:.1%} of the matrix rate"
        value += f", padding {grid.padding_share:.1%}, cosine {cosine:.6f}"
        yield f"{name}, {precision}", cosine >= LEAST[precision], value


def _forward(spec: ModelSpec, model: ModelFolder, device: str, precision: Precision) -> Forward:
    facts = ResultFacts(
        task="embed",
        width=int(model.config["hidden_size"]),
        max_length=model.max_length,
        pooling=model.pooling,
        normalize=True,
    )
    return Forward(load_module(spec, model, device, precision), device, facts, 0)


def _captured(forward: Forward, grid: ShapeGrid, cuda: Cuda | None) -> Way:
    if cuda is None:
        return forward
    runner = CudaForward(forward, cuda)
    runner.warm_up(grid.sizes)
    if runner.captured < len(grid.sizes):
        msg = f"expected {len(grid.sizes)} sizes as graphs, got {runner.captured}"
        raise RuntimeError(msg)
    return runner


def _run(
    runner: Way,
    ragged: RaggedOnDevice,
    lengths: npt.NDArray[np.int64],
    grid: ShapeGrid,
    results: Results,
    copies: int,
) -> None:
    rows = np.tile(np.arange(lengths.size), copies)
    outcome = run_batches(
        batches_of(grid, rows, lengths),
        lambda batch: runner.launch(ragged, batch),
        results.place,
        runner.depth,
        runner.token_limit,
    )
    if outcome.faults:
        msg = f"expected results of all rows, got {sorted(set(outcome.faults.values()))}"
        raise RuntimeError(msg)


def _vectors(
    runner: Way, ragged: RaggedOnDevice, lengths: npt.NDArray[np.int64], grid: ShapeGrid
) -> npt.NDArray[np.float64]:
    results = Results(lengths.size, runner.facts)
    _run(runner, ragged, lengths, grid, results, 1)
    return results.values.astype(np.float64)


def _seconds(
    runner: Way,
    ragged: RaggedOnDevice,
    lengths: npt.NDArray[np.int64],
    grid: ShapeGrid,
    copies: int,
) -> float:
    results = Results(lengths.size, runner.facts)
    start = time.perf_counter()
    _run(runner, ragged, lengths, grid, results, copies)
    return time.perf_counter() - start
