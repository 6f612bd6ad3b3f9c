"""Steps 1f and 1g: resolve, once and on a worker, the shapes, the precision and the result's width.

`precision: auto` takes bf16 only where the processor multiplies it natively, the results pass the
quality gate against fp32 on a sample, and a short trial shows it to be faster. (It need not be:
processors with AVX512-BF16 but without AMX may run it at half the rate of fp32.)
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from headrace.schemas.errors import JobError, ShardError
from headrace.schemas.job import Job, Precision
from headrace.schemas.plan import Resolved, Road, ShapeGrid, Slice
from headrace.stages.batch import Batch, padding_share
from headrace.stages.forward import Forward, fit_to_batch, model_tensor
from headrace.stages.gate import compare
from headrace.stages.handover import put
from headrace.stages.isolate import run_batches
from headrace.stages.model_folder import ModelFolder
from headrace.stages.ragged import Ragged, ragged_of
from headrace.stages.read import Source
from headrace.stages.results import Results
from headrace.stages.sample import sample_texts
from headrace.stages.shapes import choose_grid, make_grid
from headrace.stages.task import result_facts
from headrace.stages.tokenize import Tokens, load_tokenizer, tokenize
from headrace.stages.wording import in_short

GATE_ROWS = 64
TRIALS = 3
TRIAL_BATCHES = 4
PROBE_TEXT = "one"
# Measured with MiniLM on 2-core x86-64: activations of about 1,000 tokens stay in the L2 caches;
# a GPU wants enough work to hide the launches.
BATCH_TOKENS = {"cpu": 1_024, "cuda": 65_536}
LENGTH_MULTIPLE = {"cpu": 1, "cuda": 8}
# A GPU captures a graph for each shape; a CPU that runs eagerly pays nothing for one more.
MAX_SHAPES = {"cpu": 32, "cuda": 12}

Load = Callable[[Precision], torch.nn.Module]


def choose_device(wanted: str) -> str:
    """Resolve `compute.device` on this machine.

    Raises:
        JobError: cuda was asked for, and torch finds no GPU.
    """
    has_gpu = torch.cuda.is_available()
    if wanted == "cuda" and not has_gpu:
        msg = (
            "compute.device: expected a CUDA GPU that torch can use, got none on this machine. "
            "Use device: auto or cpu, or see `headrace doctor`."
        )
        raise JobError(msg)
    return "cuda" if has_gpu and wanted != "cpu" else "cpu"


def multiplies_bf16(device: str) -> bool:
    """Ask the processor whether it multiplies bf16 natively."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    flags = torch.cpu.get_capabilities()
    return any(bool(flags.get(name)) for name in ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16"))


def resolve(
    job: Job,
    model: ModelFolder,
    source: Source,
    slices: list[Slice],
    shard_rows: int,
    device: str,
    load: Load,
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
    """
    texts = sample_texts(source, slices, job.input.text_columns, job.preprocess, model.prompt)
    tokenizer = load_tokenizer(model)
    tokens = tokenize(texts, tokenizer, lowercase=model.lowercase)
    grid = _grid(job, model, tokens.lengths, shard_rows, device)
    probe = tokens if len(texts) else tokenize(pa.array([PROBE_TEXT]), tokenizer, lowercase=False)
    road, forward = _choose_road(job, model, probe, device, load)
    weights = sum(p.numel() * p.element_size() for p in forward.module.parameters())
    return Resolved(grid, road, forward.facts, weights)


def _grid(
    job: Job, model: ModelFolder, lengths: npt.NDArray[np.int64], shard_rows: int, device: str
) -> ShapeGrid:
    wanted, most = job.compute.batch_tokens, job.compute.max_shapes
    budget = BATCH_TOKENS[device] if wanted == "auto" else wanted
    shapes = choose_grid(
        lengths,
        max_length=model.max_length,
        max_shapes=MAX_SHAPES[device] if most == "auto" else most,
        batch_tokens=budget,
        multiple=LENGTH_MULTIPLE[device],
    )
    return make_grid(shapes, budget, lengths, padding_share(lengths, shapes, shard_rows))


def _choose_road(
    job: Job, model: ModelFolder, probe: Tokens, device: str, load: Load
) -> tuple[Road, Forward]:
    wanted = job.model.precision
    if wanted != "auto":
        return _only(job, model, probe, device, load, wanted, "as the job says")
    if not multiplies_bf16(device):
        reason = f"this {device} does not multiply bf16 natively"
        return _only(job, model, probe, device, load, "fp32", reason)
    safe = _trial(_forward(job, model, device, load, "fp32"), probe)
    try:
        fast = _trial(_forward(job, model, device, load, "bf16"), probe)
    except ShardError as error:
        return _road(device, "fp32", f"bf16 was tried: {error}", safe), safe.forward
    passed, measure = compare(safe.results, fast.results)
    ratio = fast.tokens_per_s / safe.tokens_per_s
    if passed and ratio > 1.0:
        reason = f"{measure}, {ratio:.2f} times as fast in a trial"
        return _road(device, "bf16", reason, fast), fast.forward
    why = f"only {ratio:.2f} times as fast in a trial" if passed else measure
    return _road(device, "fp32", f"bf16 was tried: {why}", safe), safe.forward


def _only(
    job: Job,
    model: ModelFolder,
    probe: Tokens,
    device: str,
    load: Load,
    precision: Precision,
    reason: str,
) -> tuple[Road, Forward]:
    trial = _trial(_forward(job, model, device, load, precision), probe)
    return _road(device, precision, reason, trial), trial.forward


def _road(device: str, precision: Precision, reason: str, trial: "Trial") -> Road:
    return Road(
        device="cuda" if device == "cuda" else "cpu",
        precision=precision,
        reason=reason,
        tokens_per_s=trial.tokens_per_s,
    )


def _forward(
    job: Job, model: ModelFolder, device: str, load: Load, precision: Precision
) -> Forward:
    """Load the model, and learn the result's width from one row of our own."""
    module = load(precision)
    ids = torch.tensor([load_tokenizer(model).encode(PROBE_TEXT).ids], device=device)
    mask = torch.ones_like(ids)
    try:
        with torch.inference_mode():
            output = module(input_ids=ids, attention_mask=mask)
    except Exception as error:
        msg = (
            f"model: expected it to compute the one row {PROBE_TEXT!r}, "
            f"got {in_short(error)}. Does it take input_ids and attention_mask by name?"
        )
        raise JobError(msg) from error
    tensor = model_tensor(output, job.model.task)
    fit_to_batch(tensor, mask)
    width = int(tensor.shape[-1])
    return Forward(module, device, result_facts(job, model, width), pad_id(model))


def pad_id(model: ModelFolder) -> int:
    """The id that padding holds; RoBERTa-like models count their positions by it."""
    return int(model.config.get("pad_token_id") or 0)


@dataclass(frozen=True)
class Trial:
    """A precision on the sample: how fast, and what it gave."""

    forward: Forward
    tokens_per_s: float  # padding included
    results: Results


def _all_of(tokens: Tokens) -> Ragged:
    """Every row of a sample, which is without nulls."""
    return ragged_of(tokens, np.ones(tokens.lengths.size, np.bool_), int(tokens.lengths.max()))


def _trial(forward: Forward, probe: Tokens) -> Trial:
    """Run up to 64 rows, spread over the sample's lengths, a few times; the best time counts.

    Rows that can't be computed are isolated here as in a shard.
    """
    order = np.argsort(probe.lengths, kind="stable")
    rows = order[np.unique(np.linspace(0, order.size - 1, GATE_ROWS).round().astype(int))]
    batches = [
        Batch(part, part.size, max(1, int(probe.lengths[part].max())))
        for part in np.array_split(rows, min(rows.size, TRIAL_BATCHES))
    ]
    ragged = put(_all_of(probe), forward.device)
    best = 0.0
    for _ in range(TRIALS + 1):  # the first one warms up
        results = Results(probe.lengths.size, forward.facts)
        start = time.perf_counter()
        outcome = run_batches(batches, partial(forward.launch, ragged), results.place)
        best = max(best, outcome.padded_tokens / (time.perf_counter() - start))
    return Trial(forward, best, results)
