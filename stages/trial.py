"""Steps 1f and 1g: a model tried on a sample: what it gives, how well, and how fast."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from headrace.schemas.errors import JobError
from headrace.schemas.job import Job, Precision
from headrace.schemas.plan import BatchSize, PackSize
from headrace.stages.batch import Batch, Rows, StaticBatch
from headrace.stages.forward import BatchResult, Forward, Runner, fit_to_batch, model_tensor
from headrace.stages.gate import compare
from headrace.stages.grid import full_batch
from headrace.stages.handover import RaggedOnDevice, put
from headrace.stages.isolate import Collect, run_batches
from headrace.stages.model_folder import ModelFolder
from headrace.stages.pack import exact_pack
from headrace.stages.packed_forward import pack_forward
from headrace.stages.ragged import ragged_of
from headrace.stages.results import Results
from headrace.stages.stall import StallWatch
from headrace.stages.task import result_facts
from headrace.stages.tokenize import Tokens, load_tokenizer
from headrace.stages.wording import in_short

GATE_ROWS = 64
TRIALS = 3
TRIAL_BATCHES = 4
PROBE_TEXT = "one"

Load = Callable[[Precision], torch.nn.Module]


@dataclass(frozen=True)
class Sample:
    """A sample's tokens on the device, and how many each of its rows has."""

    ragged: RaggedOnDevice
    lengths: Rows  # (S,) special tokens included

    def run_full(self, runner: Runner, size: BatchSize | PackSize) -> BatchResult:
        """Run a full batch of its rows, taken again and again."""
        return runner.launch(self.ragged, full_batch(size, self.lengths))()


@dataclass(frozen=True)
class Bench:
    """Where a model is tried: the job, its model, a sample's tokens, and who loads the model."""

    job: Job
    model: ModelFolder
    probe: Tokens  # one row at least, no null
    device: str
    load: Load

    def forward(self, precision: Precision) -> Forward:
        """Load the model in the layout that the job asks for.

        Raises:
            JobError: it does not compute one row of our own, or does not run in that layout.
        """
        padded = self.padded(precision)
        return pack_forward(padded) if self.packs else padded

    @property
    def packs(self) -> bool:
        """Whether the job asks for packs."""
        return self.job.model.road == "packed"

    def padded(self, precision: Precision) -> Forward:
        """Load the model for padded rows, and learn the result's width from one row of our own.

        Raises:
            JobError: it does not compute that row.
        """
        module = self.load(precision)
        ids = torch.tensor([load_tokenizer(self.model).encode(PROBE_TEXT).ids], device=self.device)
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
        tensor = model_tensor(output, self.job.model.task)
        fit_to_batch(tensor, mask)
        facts = result_facts(self.job, self.model, int(tensor.shape[-1]))
        return Forward(module, self.device, facts, pad_id(self.model))

    def sample(self) -> Sample:
        """Put the sample's tokens on the device."""
        lengths = self.probe.lengths
        present = np.ones(lengths.size, np.bool_)
        ragged = ragged_of(self.probe, present, int(lengths.max()))
        return Sample(put(ragged, self.device), lengths)

    def try_out(self, forward: Forward) -> "Trial":
        """Run up to 64 rows, spread over the sample's lengths, a few times; the best time counts.

        Rows that can't be computed are isolated here as in a shard. Vectors come in float32,
        whatever the job writes: bits and whole numbers are too coarse to judge a precision by.

        Raises:
            ShardError: the fault is not in the rows.
        """
        order = np.argsort(self.probe.lengths, kind="stable")
        rows = order[np.unique(np.linspace(0, order.size - 1, GATE_ROWS).round().astype(int))]
        parts = np.array_split(rows, min(rows.size, TRIAL_BATCHES))
        batches = [_exact(forward, part, self.probe.lengths[part]) for part in parts]
        ragged, best = self.sample().ragged, 0.0
        judged = replace(forward, facts=forward.facts.model_copy(update={"dtype": "float32"}))
        stall = StallWatch(self.job.compute.stall_timeout_s)

        def launch(batch: StaticBatch) -> Collect:
            stall.step("the model's trial")
            return judged.launch(ragged, batch)

        try:
            for _ in range(TRIALS + 1):  # the first one warms up
                results = Results(self.probe.lengths.size, judged.facts)
                start = time.perf_counter()
                outcome = run_batches(batches, launch, results.place)
                best = max(best, outcome.padded_tokens / (time.perf_counter() - start))
        finally:
            stall.close()
        return Trial(forward, best, results)


def _exact(forward: Forward, rows: Rows, counts: Rows) -> StaticBatch:
    """Batch rows (R,) of so many tokens (R,) with as little room as they need."""
    if forward.layout == "packed":
        return exact_pack(rows, counts)
    return Batch(rows, rows.size, max(1, int(counts.max())))


@dataclass(frozen=True)
class Trial:
    """A precision on the sample: how fast, and what it gave."""

    forward: Forward
    tokens_per_s: float  # padding included
    results: Results


def compare_layouts(bench: Bench) -> str:
    """Hold packed results against those of transformers' padded rows, in one precision.

    Returns:
        The measure in words.

    Raises:
        JobError: they differ, or the model can't run packed.
    """
    wanted = bench.job.model.precision
    padded = bench.padded("fp32" if wanted == "auto" else wanted)
    trials = [bench.try_out(forward).results for forward in (padded, pack_forward(padded))]
    passed, measure = compare(*trials, other="transformers")
    if not passed:
        msg = (
            f"model.road: expected packed rows to give what transformers gives, got {measure}. "
            "Choose model.road: bucketed."
        )
        raise JobError(msg)
    return measure


def pad_id(model: ModelFolder) -> int:
    """The id that padding holds; RoBERTa-like models count their positions by it."""
    return int(model.config.get("pad_token_id") or 0)


def weights_bytes(module: torch.nn.Module) -> int:
    """Bytes of a model's parameters."""
    return sum(p.numel() * p.element_size() for p in module.parameters())
