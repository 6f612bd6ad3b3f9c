"""Steps 1f and 1g: resolve, once and on a worker, the shapes, the precision and the result's width.

On a CPU, `precision: auto` takes bf16 only where the processor multiplies it natively, the results
pass the quality gate against fp32 on a sample, and a short trial shows it to be faster. (It need
not be: processors with AVX512-BF16 but without AMX may run it at half the rate of fp32.) What is
chosen on a GPU, and how, is in cuda_road.py.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.schemas.errors import ShardError
from headrace.schemas.job import Job, Precision
from headrace.schemas.plan import Resolved, Road, ShapeGrid, Slice
from headrace.stages.cuda import Cuda
from headrace.stages.cuda_road import choose_on_cuda
from headrace.stages.gate import compare
from headrace.stages.grid import make_grid, pack_sizes
from headrace.stages.model_folder import ModelFolder
from headrace.stages.processor import multiplies_bf16
from headrace.stages.read import Source
from headrace.stages.sample import sample_texts
from headrace.stages.shapes import choose_grid
from headrace.stages.text_road import choose_text_road
from headrace.stages.tokenize import load_tokenizer, tokenize
from headrace.stages.trial import PROBE_TEXT, Bench, Load, Trial, compare_layouts, weights_bytes

# Measured with MiniLM on 2-core x86-64: activations of about 1,000 tokens stay in the L2 caches;
# a GPU wants enough work to hide the launches.
BATCH_TOKENS = {"cpu": 1_024, "cuda": 65_536}
LENGTH_MULTIPLE = {"cpu": 1, "cuda": 8}
# A GPU captures a graph for each shape; a CPU that runs eagerly pays nothing for one more.
MAX_SHAPES = {"cpu": 32, "cuda": 12}


def resolve(
    job: Job,
    model: ModelFolder,
    source: Source,
    slices: list[Slice],
    shard_rows: int,
    device: str,
    load: Load,
    *,
    careful: bool = False,
) -> Resolved:
    """Resolve shapes, precision and width on this worker's device.

    Args:
        job: the job.
        model: its model folder.
        source: the input.
        slices: of it, to sample texts from.
        shard_rows: rows of a typical shard, which the padding estimate is for.
        device: from `choose_device`.
        load: loads the model in a precision.
        careful: a worker died of this: let the model compute no row of the input, but one of ours.
            Nothing can be said of a lower precision then.
    """
    careful_why = ""
    if careful:
        careful_why = "; not tried on the input's rows, of which a worker died"
        if job.model.precision == "auto":
            safe = job.model.model_copy(update={"precision": "fp32"})
            job = job.model_copy(update={"model": safe})
    texts = sample_texts(source, slices, job.input.text_columns, job.preprocess, model.prompt)
    tokenizer = load_tokenizer(model)
    tokens = tokenize(texts, tokenizer, lowercase=model.lowercase)
    own = careful or not len(texts)
    probe = tokenize(pa.array([PROBE_TEXT]), tokenizer, lowercase=False) if own else tokens
    bench = Bench(job, model, probe, device, load)

    def grid_of(budget: int) -> ShapeGrid:
        return _grid(bench, tokens.lengths, shard_rows, budget)

    wanted = job.compute.batch_tokens
    budget = BATCH_TOKENS[device] if wanted == "auto" else wanted
    same = (f"; packed: {compare_layouts(bench)}" if bench.packs else "") + careful_why
    if device == "cuda":
        text = choose_text_road(job, model, source, slices, texts, device)
        return _saying(choose_on_cuda(bench, grid_of, budget, text, Cuda()), same)
    road, trial = _choose_on_cpu(bench)
    forward = trial.forward
    resolved = Resolved(grid_of(budget), road, forward.facts, weights_bytes(forward.module))
    return _saying(resolved, same)


def _saying(resolved: Resolved, why: str) -> Resolved:
    """Add to a road's reason."""
    road = resolved.road.model_copy(update={"reason": resolved.road.reason + why})
    return replace(resolved, road=road)


def _grid(bench: Bench, lengths: npt.NDArray[np.int64], shard_rows: int, budget: int) -> ShapeGrid:
    most, longest = bench.job.compute.max_shapes, bench.model.max_length
    if bench.packs:
        packs = pack_sizes(lengths, max_length=longest, batch_tokens=budget)
        return make_grid(lengths, budget, shard_rows, packs=packs)
    shapes = choose_grid(
        lengths,
        max_length=longest,
        max_shapes=MAX_SHAPES[bench.device] if most == "auto" else most,
        batch_tokens=budget,
        multiple=LENGTH_MULTIPLE[bench.device],
    )
    return make_grid(lengths, budget, shard_rows, shapes=shapes)


def _choose_on_cpu(bench: Bench) -> tuple[Road, Trial]:
    wanted = bench.job.model.precision
    if wanted != "auto":
        trial = bench.try_out(bench.forward(wanted))
        return _road(wanted, "as the job says", trial), trial
    safe = bench.try_out(bench.forward("fp32"))
    if not multiplies_bf16("cpu"):
        return _road("fp32", "this cpu does not multiply bf16 natively", safe), safe
    try:
        fast = bench.try_out(bench.forward("bf16"))
    except ShardError as error:
        return _road("fp32", f"bf16 was tried: {error}", safe), safe
    passed, measure = compare(safe.results, fast.results)
    ratio = fast.tokens_per_s / safe.tokens_per_s
    if passed and ratio > 1.0:
        return _road("bf16", f"{measure}, {ratio:.2f} times as fast in a trial", fast), fast
    why = f"only {ratio:.2f} times as fast in a trial" if passed else measure
    return _road("fp32", f"bf16 was tried: {why}", safe), safe


def _road(precision: Precision, reason: str, trial: Trial) -> Road:
    return Road(
        device="cpu",
        precision=precision,
        layout=trial.forward.layout,
        reason=reason,
        tokens_per_s=trial.tokens_per_s,
    )
