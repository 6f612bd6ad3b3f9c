"""Steps 7 and 8: one static batch through the model and its post-processing, on one device."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from headrace.kernels.pad_gather.reference import pad_gather
from headrace.kernels.pool_normalize.reference import normalize, pool
from headrace.kernels.softmax_topk.reference import softmax_topk
from headrace.schemas.errors import JobError
from headrace.schemas.job import VectorDtype
from headrace.schemas.plan import ResultFacts
from headrace.stages.batch import Batch
from headrace.stages.spans import Spans
from headrace.stages.tokenize import Tokens

HIDDEN_RANK = 3
DTYPES: dict[VectorDtype, torch.dtype] = {"float32": torch.float32, "float16": torch.float16}


@dataclass(frozen=True)
class RaggedOnDevice:
    """A shard's tokens where the model is."""

    ids: torch.Tensor  # (T,) int32
    offsets: torch.Tensor  # (N + 1,) int64


@dataclass(frozen=True)
class BatchResult:
    """What one batch gave, on the host, in the order of the batch's rows (R of them)."""

    # embed: (R, W) float32 or float16; classify: (R, k) float32 probabilities
    values: npt.NDArray[np.float32 | np.float16]
    classes: npt.NDArray[np.int64] | None  # classify: (R, k)
    finite: npt.NDArray[np.bool_]  # (R,)


@dataclass
class Forward:
    """A loaded model and how its outputs become results."""

    module: torch.nn.Module
    device: str
    facts: ResultFacts
    pad_id: int
    spans: Spans = field(default_factory=Spans)

    def put(self, tokens: Tokens) -> RaggedOnDevice:
        """Copy a shard's ragged tokens to the device."""
        with self.spans("h2d_s"):
            return RaggedOnDevice(
                torch.from_numpy(tokens.ids).to(self.device),
                torch.from_numpy(tokens.offsets).to(self.device),
            )

    def run(self, tokens: RaggedOnDevice, batch: Batch) -> BatchResult:
        """Run one batch. Raises whatever the model raises."""
        rows = np.full(batch.height, -1, np.int64)
        rows[: batch.rows.size] = batch.rows
        with torch.inference_mode():
            with self.spans("forward_s"):
                rows_b = torch.from_numpy(rows).to(self.device)
                ids, mask = pad_gather(
                    tokens.ids, tokens.offsets, rows_b, batch.length, self.pad_id
                )
                output = self.module(input_ids=ids, attention_mask=mask)
            with self.spans("post_s"):
                values, classes, finite = self._post(output, mask)
            with self.spans("d2h_s"):
                real = batch.rows.size
                return BatchResult(
                    values[:real].cpu().numpy(),
                    None if classes is None else classes[:real].cpu().numpy(),
                    finite[:real].cpu().numpy(),
                )

    def _post(
        self, output: object, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        tensor = model_tensor(output, self.facts.task)
        fit_to_batch(tensor, mask)
        if self.facts.task == "classify":
            return softmax_topk(tensor, self.facts.top_k, activation=self.facts.activation)
        hidden = tensor.ndim == HIDDEN_RANK
        pooled = pool(tensor, mask, self.facts.pooling) if hidden else tensor.float()
        vectors, finite = normalize(
            pooled[:, : self.facts.truncate_dim],
            enabled=self.facts.normalize,
            dtype=DTYPES[self.facts.dtype],
        )
        return vectors, None, finite


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
