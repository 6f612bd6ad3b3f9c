"""Steps 7 and 8: one static batch through the model and its post-processing, on one device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from headrace.kernels.pool_normalize.launch import pool_normalize_padded
from headrace.kernels.pool_normalize.reference import normalize as normalize_rows
from headrace.kernels.softmax_topk.launch import softmax_topk
from headrace.schemas.errors import JobError
from headrace.schemas.plan import BatchLayout, ResultFacts
from headrace.stages.batch import StaticBatch
from headrace.stages.handover import RaggedOnDevice
from headrace.stages.spans import Spans

HIDDEN_RANK = 3


@dataclass(frozen=True)
class BatchResult:
    """What one batch gave, on the host, in the order of the batch's rows (R of them)."""

    # embed: (R, W) as `Vectors` (kernels/pool_normalize); classify: (R, k) float32 probabilities
    values: npt.NDArray[Any]
    classes: npt.NDArray[np.int64] | None  # classify: (R, k)
    finite: npt.NDArray[np.bool_]  # (R,)
    scales: npt.NDArray[np.float32] | None = None  # of int8 vectors: (R,)

    def where_finite(self) -> "BatchResult":
        """Leave the other rows out."""
        keep = self.finite
        return BatchResult(
            self.values[keep],
            None if self.classes is None else self.classes[keep],
            keep[keep],
            None if self.scales is None else self.scales[keep],
        )


class Outputs(NamedTuple):
    """What one static batch gave, on the device: as BatchResult, with B rows."""

    values: torch.Tensor
    classes: torch.Tensor | None
    finite: torch.Tensor
    scales: torch.Tensor | None = None

    def present(self) -> dict[str, torch.Tensor]:
        """Those that there are, by name."""
        return {name: one for name, one in self._asdict().items() if one is not None}


class Runner(Protocol):
    """What runs batches on a device."""

    spans: Spans

    @property
    def device(self) -> str:
        """The device's kind: cpu or cuda."""

    @property
    def module(self) -> torch.nn.Module:
        """The model."""

    @property
    def depth(self) -> int:
        """How many batches may be under way at once."""

    @property
    def token_limit(self) -> int | None:
        """Tokens that a batch may have on this worker, where the plan's shapes do not fit."""

    def launch(self, ragged: RaggedOnDevice, batch: StaticBatch) -> Callable[[], BatchResult]:
        """Begin one batch; what is returned waits for its result. Either raises what it may."""


@dataclass
class Forward:
    """A loaded model and how its outputs become results. Batches run eagerly, one at a time."""

    module: torch.nn.Module
    device: str
    facts: ResultFacts
    pad_id: int
    spans: Spans = field(default_factory=Spans)
    layout: ClassVar[BatchLayout] = "bucketed"
    depth: ClassVar[int] = 1
    token_limit: ClassVar[int | None] = None

    def launch(self, ragged: RaggedOnDevice, batch: StaticBatch) -> Callable[[], BatchResult]:
        """Run one batch. Raises whatever the model raises."""
        with torch.inference_mode():
            with self.spans("forward_s"):
                given = batch.lay_out(ragged, self.pad_id, lambda tensor: tensor.to(self.device))
                output = self.run(*given)
            with self.spans("post_s"):
                outputs = self.post(output, *given)
            with self.spans("d2h_s"):
                result = on_host(outputs, batch.rows.size)
        return lambda: result

    def run(self, *given: torch.Tensor) -> object:
        """Run the model on what a `StaticBatch` lays out: ids (B, L) and mask (B, L)."""
        ids, mask = given
        return self.module(input_ids=ids, attention_mask=mask)

    def post(self, output: object, *given: torch.Tensor) -> Outputs:
        """Make results of the model's output, on the device."""
        _, mask = given
        tensor = model_tensor(output, self.facts.task)
        fit_to_batch(tensor, mask)
        if self.facts.task == "classify":
            return scores(tensor, self.facts)
        width = self.facts.truncate_dim or tensor.shape[-1]
        normalize, dtype = self.facts.normalize, self.facts.dtype
        if tensor.ndim == HIDDEN_RANK:
            pooling = self.facts.pooling
            made = pool_normalize_padded(
                tensor, mask, pooling, width, normalize=normalize, dtype=dtype
            )
        else:
            made = normalize_rows(tensor.float()[:, :width], enabled=normalize, dtype=dtype)
        return Outputs(made.values, None, made.finite, made.scales)


def scores(logits_bc: torch.Tensor, facts: ResultFacts) -> Outputs:
    """Make a classifier's results of its logits."""
    return Outputs(*softmax_topk(logits_bc, facts.top_k, activation=facts.activation))


def on_host(outputs: Outputs, rows: int) -> BatchResult:
    """Copy the results of the first rows, which are real, to the host, and wait for them."""
    return batch_result({name: one[:rows].cpu() for name, one in outputs.present().items()})


def batch_result(tensors: Mapping[str, torch.Tensor]) -> BatchResult:
    """See results that are on the host, by the names of `Outputs`, as arrays."""
    classes, scales = tensors.get("classes"), tensors.get("scales")
    return BatchResult(
        tensors["values"].numpy(),
        None if classes is None else classes.numpy(),
        tensors["finite"].numpy(),
        None if scales is None else scales.numpy(),
    )


def model_tensor(output: object, task: str) -> torch.Tensor:
    """Find the tensor in a model's output: hidden (B, L, H), pooled (B, D) or logits (B, C).

    Takes a tensor, or a mapping (transformers' outputs are mappings) with one of the names
    `hidden`, `last_hidden_state`, `pooled`, `logits`.

    Raises:
        JobError: there is none, or its rank does not fit the task.
    """
    found = output
    if isinstance(output, Mapping):
        names = ("logits",) if task == "classify" else ("last_hidden_state", "hidden", "pooled")
        found = next((output[name] for name in names if name in output), None)
    ranks = (2,) if task == "classify" else (2, HIDDEN_RANK)
    if not isinstance(found, torch.Tensor) or found.ndim not in ranks:
        wanted = "logits (B, C)" if task == "classify" else "hidden (B, L, H) or pooled (B, D)"
        msg = f"model: expected {wanted} for task {task!r}, got {_describe(output)}"
        raise JobError(msg)
    return found


def fit_to_batch(tensor: torch.Tensor, mask_bl: torch.Tensor) -> None:
    """Check that a model's tensor has the batch's rows, and its length where it has one.

    Raises:
        JobError: it has not, so results would land on the wrong rows.
    """
    axes = tensor.ndim - 1
    if tensor.shape[:axes] != mask_bl.shape[:axes]:
        msg = (
            f"model: expected {tuple(mask_bl.shape[:axes])} rows (and tokens) first, as the batch "
            f"has, got {_describe(tensor)}"
        )
        raise JobError(msg)


def _describe(output: Any) -> str:  # noqa: ANN401 - whatever a user's module returned
    if isinstance(output, torch.Tensor):
        return f"a tensor of shape {tuple(output.shape)}"
    if isinstance(output, Mapping):
        return f"a mapping with {sorted(map(str, output))}"
    return f"a {type(output).__name__}"
