"""Steps 7 and 8 for packs: the packed encoder, a classifier's head, and their post-processing."""

from typing import Any, ClassVar

import torch

from headrace.kernels.choice import triton_lack
from headrace.kernels.pool_normalize.launch import pool_normalize
from headrace.kernels.varlen_attention.launch import WARPS
from headrace.schemas.errors import JobError
from headrace.schemas.plan import BatchLayout
from headrace.stages.forward import Forward, Outputs, scores
from headrace.stages.packed_encoder import ROBERTA, PackedEncoder, unfit


class PackedModel(torch.nn.Module):
    """The packed encoder and, for a classifier, transformers' own head over first tokens."""

    def __init__(self, module: Any, *, classify: bool) -> None:  # noqa: ANN401 - transformers' classes differ
        """Take the weights of a loaded model that `pack_forward` has nothing against."""
        super().__init__()
        config = module.config.to_dict()
        self.encoder = PackedEncoder(module.base_model, config)
        self.head = _Head(module, config["model_type"]) if classify else None

    def forward(
        self,
        ids_t: torch.Tensor,
        places_t: torch.Tensor,
        edges_b1: torch.Tensor,
        blocks_k2: torch.Tensor,
    ) -> torch.Tensor:
        """Compute hidden states (T, H), or logits (B, C); see `PackedEncoder`."""
        hidden: torch.Tensor = self.encoder(ids_t, places_t, edges_b1, blocks_k2)
        if self.head is None:
            return hidden
        # Where there is no row behind the last one, its edge may be the pack's end.
        first_b = edges_b1[:-1].clamp(max=hidden.shape[0] - 1)
        logits: torch.Tensor = self.head(hidden[first_b])
        return logits


class _Head(torch.nn.Module):
    """From a row's first token to its logits, as the three families do it."""

    def __init__(self, module: Any, kind: str) -> None:  # noqa: ANN401 - as above
        super().__init__()
        self.kind = kind
        self.classifier = module.classifier
        self.pooler = module.base_model.pooler if kind == "bert" else None
        self.before = module.pre_classifier if kind == "distilbert" else None

    def forward(self, first_bh: torch.Tensor) -> torch.Tensor:
        """Compute logits (B, C) of first tokens (B, H)."""
        if self.kind in ROBERTA:  # its head takes a row's first token itself
            logits: torch.Tensor = self.classifier(first_bh[:, None])
        elif self.pooler is not None:
            logits = self.classifier(self.pooler(first_bh[:, None]))
        else:
            assert self.before is not None
            logits = self.classifier(torch.relu(self.before(first_bh)))
        return logits


class PackedForward(Forward):
    """A `Forward` whose batches are packs (stages/pack.py)."""

    layout: ClassVar[BatchLayout] = "packed"

    def run(self, *given: torch.Tensor) -> torch.Tensor:
        """Run the model on ids (T,), places (T,), edges (B + 1,) and blocks (K, 2)."""
        output: torch.Tensor = self.module(*given)
        return output

    def post(self, output: object, *given: torch.Tensor) -> Outputs:
        """Make results of hidden states (T, H) or logits (B, C)."""
        assert isinstance(output, torch.Tensor)
        if self.facts.task == "classify":
            return scores(output, self.facts)
        edges = given[2]
        made = pool_normalize(
            output,
            edges[:-1],
            edges[1:],
            self.facts.pooling,
            self.facts.truncate_dim or output.shape[-1],
            normalize=self.facts.normalize,
            dtype=self.facts.dtype,
        )
        return Outputs(made.values, None, made.finite, made.scales)


def pack_forward(padded: Forward) -> PackedForward:
    """Make the packed forward pass of a loaded model, which may then be let go.

    Raises:
        JobError: the packed encoder does not run this model, or not on this machine.
    """
    config = getattr(padded.module, "config", None)
    why = "a module without a configuration" if config is None else unfit(config.to_dict())
    if why is None and padded.device == "cuda":
        why = _lack_on_cuda(padded.module)
    if why is not None:
        msg = (
            "model.road: expected a model of BERT's family that can run packed here, got "
            f"{why}. Choose model.road: bucketed."
        )
        raise JobError(msg)
    model = PackedModel(padded.module, classify=padded.facts.task == "classify").eval()
    return PackedForward(model, padded.device, padded.facts, padded.pad_id)


def _lack_on_cuda(module: Any) -> str | None:  # noqa: ANN401 - as above
    """Say why the kernels can't run; their references would wait for the GPU in each layer."""
    lack = triton_lack()
    if lack is not None:
        return f"a GPU without Triton: {lack}"
    size = module.config.hidden_size // module.config.num_attention_heads
    return None if size in WARPS else f"heads of {size} values, not one of {sorted(WARPS)}"
