"""Steps 1f and 1g: a model tried on a sample: what it gives, how well, and how fast."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from headrace.schemas.errors import JobError
from headrace.schemas.job import Job, Precision
from headrace.stages.batch import Batch
from headrace.stages.forward import Forward, fit_to_batch, model_tensor
from headrace.stages.handover import RaggedOnDevice, put
from headrace.stages.isolate import run_batches
from headrace.stages.model_folder import ModelFolder
from headrace.stages.ragged import ragged_of
from headrace.stages.results import Results
from headrace.stages.task import result_facts
from headrace.stages.tokenize import Tokens, load_tokenizer
from headrace.stages.wording import in_short

GATE_ROWS = 64
TRIALS = 3
TRIAL_BATCHES = 4
PROBE_TEXT = "one"

Load = Callable[[Precision], torch.nn.Module]


@dataclass(frozen=True)
class Bench:
    """Where a model is tried: the job, its model, a sample's tokens, and who loads the model."""

    job: Job
    model: ModelFolder
    probe: Tokens  # one row at least, no null
    device: str
    load: Load

    def forward(self, precision: Precision) -> Forward:
        """Load the model, and learn the result's width from one row of our own.

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

    def ragged(self) -> RaggedOnDevice:
        """The sample's tokens, on the device."""
        rows, longest = self.probe.lengths.size, int(self.probe.lengths.max())
        return put(ragged_of(self.probe, np.ones(rows, np.bool_), longest), self.device)

    def try_out(self, forward: Forward) -> "Trial":
        """Run up to 64 rows, spread over the sample's lengths, a few times; the best time counts.

        Rows that can't be computed are isolated here as in a shard.

        Raises:
            ShardError: the fault is not in the rows.
        """
        order = np.argsort(self.probe.lengths, kind="stable")
        rows = order[np.unique(np.linspace(0, order.size - 1, GATE_ROWS).round().astype(int))]
        batches = [
            Batch(part, part.size, max(1, int(self.probe.lengths[part].max())))
            for part in np.array_split(rows, min(rows.size, TRIAL_BATCHES))
        ]
        ragged, best = self.ragged(), 0.0
        for _ in range(TRIALS + 1):  # the first one warms up
            results = Results(self.probe.lengths.size, forward.facts)
            start = time.perf_counter()
            outcome = run_batches(batches, partial(forward.launch, ragged), results.place)
            best = max(best, outcome.padded_tokens / (time.perf_counter() - start))
        return Trial(forward, best, results)


@dataclass(frozen=True)
class Trial:
    """A precision on the sample: how fast, and what it gave."""

    forward: Forward
    tokens_per_s: float  # padding included
    results: Results


def pad_id(model: ModelFolder) -> int:
    """The id that padding holds; RoBERTa-like models count their positions by it."""
    return int(model.config.get("pad_token_id") or 0)


def weights_bytes(module: torch.nn.Module) -> int:
    """Bytes of a model's parameters."""
    return sum(p.numel() * p.element_size() for p in module.parameters())
