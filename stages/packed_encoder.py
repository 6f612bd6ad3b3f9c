"""A BERT-family encoder over packed sequences: no padding, a fixed number of tokens, few kernels.

The architectures are BERT (Devlin et al. 2018, arXiv 1810.04805), RoBERTa and XLM-R, which count
positions from behind the padding's id, and DistilBERT, which has no sentence kinds. Weights come
from transformers' own loaded module, so that one place knows how folders are read.
"""

from dataclasses import dataclass
from typing import Any

import torch

from headrace.kernels.bias_gelu.launch import bias_gelu
from headrace.kernels.bias_gelu.reference import GeluForm
from headrace.kernels.embed_layernorm.launch import embed_layernorm
from headrace.kernels.residual_layernorm.launch import residual_layernorm
from headrace.kernels.varlen_attention.launch import varlen_attention

FORMS: dict[str, GeluForm] = {"gelu": "erf", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
ROBERTA = ("roberta", "xlm-roberta", "camembert")


@dataclass(frozen=True)
class Names:
    """What a family calls its parts; `{}` is the layer's number."""

    layer: str
    query: str
    key: str
    value: str
    out: str
    out_norm: str
    up: str
    down: str
    down_norm: str
    kinds: bool  # whether sentences have kinds


BERT = Names(
    layer="encoder.layer.{}.",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    out="attention.output.dense",
    out_norm="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    down_norm="output.LayerNorm",
    kinds=True,
)
DISTILBERT = Names(
    layer="transformer.layer.{}.",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    out="attention.out_lin",
    out_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    down_norm="output_layer_norm",
    kinds=False,
)
FAMILIES = {"bert": BERT, "distilbert": DISTILBERT} | dict.fromkeys(ROBERTA, BERT)


def unfit(config: dict[str, Any]) -> str | None:
    """Say why a model's configuration is none of what the encoder runs; None if it is."""
    kind = str(config.get("model_type"))
    if kind not in FAMILIES:
        return f"a model of type {kind!r}, not one of {sorted(FAMILIES)}"
    if _activation(config) not in FORMS:
        return f"the activation {_activation(config)!r}, not one of {sorted(FORMS)}"
    if config.get("position_embedding_type", "absolute") != "absolute":
        return f"positions of type {config['position_embedding_type']!r}"
    if config.get("is_decoder") or config.get("add_cross_attention"):
        return "a decoder"
    return None


def _activation(config: dict[str, Any]) -> str:
    return str(config.get("hidden_act", config.get("activation", "")))


class PackedEncoder(torch.nn.Module):
    """Runs packed tokens; every row gives what transformers' own module gives for it alone."""

    def __init__(self, module: torch.nn.Module, config: dict[str, Any]) -> None:
        """Take the weights of a loaded encoder whose configuration `unfit` has nothing against."""
        super().__init__()
        names = FAMILIES[str(config["model_type"])]
        self.heads = int(config.get("num_attention_heads") or config["n_heads"])
        self.eps = float(config.get("layer_norm_eps", 1e-12))
        self.form: GeluForm = FORMS[_activation(config)]
        roberta = config["model_type"] in ROBERTA
        first_position = int(config.get("pad_token_id") or 0) + 1 if roberta else 0
        weights = dict(module.named_parameters())
        words = weights["embeddings.word_embeddings.weight"]
        kinds = weights.get("embeddings.token_type_embeddings.weight") if names.kinds else None
        self.words = _frozen(words)
        self.places = _frozen(weights["embeddings.position_embeddings.weight"][first_position:])
        self.kind = _frozen(torch.zeros_like(words[0]) if kinds is None else kinds[0])
        self.norm = _Affine(weights, "embeddings.LayerNorm")
        layers = int(config.get("num_hidden_layers") or config["n_layers"])
        self.layers = torch.nn.ModuleList(_Layer(weights, names, at) for at in range(layers))

    def forward(
        self,
        ids_t: torch.Tensor,
        places_t: torch.Tensor,
        edges_b1: torch.Tensor,
        blocks_k2: torch.Tensor,
    ) -> torch.Tensor:
        """Compute the hidden states of packed sequences.

        Args:
            ids_t: (T,) int32, tokens of all sequences, special tokens included.
            places_t: (T,) int32, each token's place in its sequence, from 0.
            edges_b1: (B + 1,) int32, where sequences begin and end; see varlen_attention.
            blocks_k2: (K, 2) int32, the work of varlen_attention in blocks.

        Returns:
            (T, H) of the weights' dtype. What stands behind the last edge means nothing.
        """
        norm = self.norm
        hidden = embed_layernorm(
            ids_t, places_t, self.words, self.places, self.kind, norm.weight, norm.bias, self.eps
        )
        for layer in self.layers:
            hidden = layer(hidden, edges_b1, blocks_k2, self.heads, self.eps, self.form)
        return hidden


class _Layer(torch.nn.Module):
    """One block: attention and its norm, the feed-forward part and its norm."""

    def __init__(self, weights: dict[str, torch.nn.Parameter], names: Names, at: int) -> None:
        """Fuse queries, keys and values into one product."""
        super().__init__()
        prefix = names.layer.format(at)
        parts = [_Affine(weights, prefix + name) for name in (names.query, names.key, names.value)]
        self.qkv = _frozen(torch.cat([part.weight for part in parts]))
        self.qkv_bias = _frozen(torch.cat([part.bias for part in parts]))
        self.out, self.up, self.down, self.out_norm, self.down_norm = (
            _Affine(weights, prefix + name)
            for name in (names.out, names.up, names.down, names.out_norm, names.down_norm)
        )

    def forward(
        self,
        hidden: torch.Tensor,
        edges_b1: torch.Tensor,
        blocks_k2: torch.Tensor,
        heads: int,
        eps: float,
        form: GeluForm,
    ) -> torch.Tensor:
        """Take hidden states (T, H) through the block."""
        tokens, width = hidden.shape
        qkv = torch.addmm(self.qkv_bias, hidden, self.qkv.t())
        mixed = varlen_attention(qkv.view(tokens, 3, heads, width // heads), edges_b1, blocks_k2)
        hidden = _joined(mixed, self.out, hidden, self.out_norm, eps)
        wide = bias_gelu(hidden @ self.up.weight.t(), self.up.bias, form)
        return _joined(wide, self.down, hidden, self.down_norm, eps)


def _joined(
    x: torch.Tensor, linear: "_Affine", residual: torch.Tensor, norm: "_Affine", eps: float
) -> torch.Tensor:
    """Take a product of x, add the residual, and normalise the sum."""
    product = x @ linear.weight.t()
    return residual_layernorm(product, linear.bias, residual, norm.weight, norm.bias, eps)


class _Affine(torch.nn.Module):
    """A weight and a bias: a product's, or a norm's gain and shift."""

    def __init__(self, weights: dict[str, torch.nn.Parameter], name: str) -> None:
        super().__init__()
        self.weight, self.bias = (_frozen(weights[f"{name}.{part}"]) for part in ("weight", "bias"))


def _frozen(tensor: torch.Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(tensor.detach().contiguous(), requires_grad=False)
