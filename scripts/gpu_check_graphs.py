"""Graph replay against eager execution, shape by shape, on a GPU."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from headrace.schemas.job import ModelSpec
from headrace.schemas.plan import BatchSize, ResultFacts, Shape
from headrace.stages.batch import Batch
from headrace.stages.cuda import Cuda
from headrace.stages.cuda_forward import CudaForward
from headrace.stages.forward import Forward, Runner
from headrace.stages.handover import RaggedOnDevice, put
from headrace.stages.load_model import load_module
from headrace.stages.model_folder import open_model_folder
from headrace.stages.ragged import Ragged

SHAPES = tuple(
    Shape(length=length, rows=tuple(65_536 // length // part for part in (1, 2, 4, 8)))
    for length in (16, 32, 64, 128, 256)
)
REPEATS = 5


def compare_graphs(
    folder: Path, device: str, cuda: Cuda, shapes: Sequence[Shape]
) -> Iterator[tuple[str, bool | None, str]]:
    """Capture a grid, and hold each shape's replay against the same batch run eagerly."""
    spec = ModelSpec(path=str(folder), task="embed")
    model = open_model_folder(spec)
    module = load_module(spec, model, device, "bf16")
    facts = ResultFacts(
        task="embed",
        width=int(model.config["hidden_size"]),
        max_length=model.max_length,
        pooling=model.pooling,
        normalize=True,
    )
    eager = Forward(module, device, facts, 0)
    graphs = CudaForward(eager, cuda)
    start = time.perf_counter()
    for shape in shapes:
        try:
            graphs.warm_up([BatchSize(rows=rows, length=shape.length) for rows in shape.rows])
        except Exception as error:  # noqa: BLE001 - the other shapes are still of use
            yield f"capture of length {shape.length}", False, f"{type(error).__name__}: {error}"
    sizes = sum(len(shape.rows) for shape in shapes)
    took = f"{graphs.captured} of {sizes} shapes in {time.perf_counter() - start:.1f} s"
    yield "captured", graphs.captured == sizes, took
    ragged = put(_random_rows(shapes[0].rows[0]), device)
    for shape in shapes:
        batch = Batch(np.arange(shape.rows[0]), shape.rows[0], shape.length)
        left, right = (runner.launch(ragged, batch)().values for runner in (eager, graphs))
        worst = float(np.abs(left.astype(np.float64) - right).max())
        speed = [_seconds(runner, ragged, batch) for runner in (eager, graphs)]
        tokens = batch.padded_tokens / speed[1]
        value = f"differs by {worst:.1e}, {speed[0] / speed[1]:.2f}x eager, {tokens:,.0f} tokens/s"
        yield f"{shape.rows[0]} x {shape.length}", worst < 1e-2, value


def _random_rows(rows: int) -> Ragged:
    counts = np.random.default_rng(0).integers(4, 257, rows)
    ids = np.random.default_rng(1).integers(1_000, 30_000, int(counts.sum())).astype(np.int32)
    starts = np.cumsum(counts) - counts
    return Ragged(ids, starts, counts, np.ones(rows, np.bool_), 256)


def _seconds(runner: Runner, ragged: RaggedOnDevice, batch: Batch) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        runner.launch(ragged, batch)()
        best = min(best, time.perf_counter() - start)
    return best
