import json

import numpy as np
import pytest
import torch
from transformers import AutoModel, BertConfig, DistilBertConfig, RobertaConfig
from transformers.utils import logging

from headrace.kernels.varlen_attention.launch import most_blocks, query_blocks
from headrace.stages.packed_encoder import PackedEncoder, unfit

TINY = {"vocab_size": 99, "max_position_embeddings": 70}
CONFIGS = [
    BertConfig(
        **TINY, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=96
    ),
    BertConfig(
        **TINY,
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=96,
        hidden_act="gelu_new",
        layer_norm_eps=1e-5,
    ),
    DistilBertConfig(**TINY, dim=64, n_layers=2, n_heads=2, hidden_dim=96),
    RobertaConfig(
        **TINY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=96,
        pad_token_id=1,
        type_vocab_size=1,
    ),
]


def rows_of(count, longest, vocabulary, seed=0):
    random = np.random.default_rng(seed)
    return [random.integers(3, vocabulary, random.integers(1, longest + 1)) for _ in range(count)]


def packed(encoder, rows, spare=0):
    """Run rows as one pack, with some tokens behind them that belong to none."""
    counts = [len(row) for row in rows]
    ids = torch.tensor([*(token for row in rows for token in row), *[5] * spare])
    places = torch.tensor([*(at for count in counts for at in range(count)), *[0] * spare])
    edges = torch.tensor([0, *np.cumsum(counts)], dtype=torch.int32)
    with torch.inference_mode():
        blocks = query_blocks(np.array(counts), most_blocks(len(ids), len(rows)))
        hidden = encoder(ids.int(), places.int(), edges, torch.from_numpy(blocks))
    return [hidden[a:b] for a, b in zip(edges.tolist(), edges.tolist()[1:], strict=False)]


def alone(module, row):
    ids = torch.tensor([row.tolist()])
    with torch.inference_mode():
        return module(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]


def least_cosine(module, encoder, rows):
    found = packed(encoder, rows, spare=7)
    means = [
        (states.double().mean(0), alone(module, row).double().mean(0))
        for states, row in zip(found, rows, strict=True)
    ]
    return min(float(torch.cosine_similarity(a, b, dim=0)) for a, b in means)


@pytest.mark.parametrize("config", CONFIGS, ids=["bert", "bert tanh", "distilbert", "roberta"])
def test_each_row_is_what_transformers_gives_for_it_alone(config):
    torch.manual_seed(0)
    module = AutoModel.from_config(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():  # biases and norms that do something
            parameter.add_(torch.randn_like(parameter) * 0.05)
    content = config.to_dict()
    assert unfit(content) is None
    encoder = PackedEncoder(module, content)
    rows = rows_of(40, 60, 99)
    for states, row in zip(packed(encoder, rows, spare=3), rows, strict=True):
        torch.testing.assert_close(states, alone(module, row), atol=2e-5, rtol=2e-4)
    assert least_cosine(module, encoder, rows) >= 0.99999


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=["bert", "bert tanh", "distilbert", "roberta"])
def test_a_thousand_rows_of_random_models_are_those_of_transformers(config):
    torch.manual_seed(1)
    module = AutoModel.from_config(config).eval()
    encoder = PackedEncoder(module, config.to_dict())
    for seed in range(10):
        assert least_cosine(module, encoder, rows_of(100, 60, 99, seed)) >= 0.99999


@pytest.fixture(scope="module")
def minilm_pair(minilm):
    logging.set_verbosity_error()
    module = AutoModel.from_pretrained(minilm, local_files_only=True, dtype=torch.float32).eval()
    content = json.loads((minilm / "config.json").read_text())
    assert unfit(content) is None
    return module, PackedEncoder(module, content)


def test_minilm_s_rows_are_those_of_transformers(minilm_pair):
    module, encoder = minilm_pair
    assert least_cosine(module, encoder, rows_of(16, 60, 30_000)) >= 0.99999


@pytest.mark.slow
def test_a_thousand_rows_of_minilm_are_those_of_transformers(minilm_pair):
    module, encoder = minilm_pair
    for seed in range(10):
        assert least_cosine(module, encoder, rows_of(100, 256, 30_000, seed)) >= 0.99999


def test_who_shares_the_pack_changes_nothing(minilm_pair):
    _, encoder = minilm_pair
    rows = rows_of(12, 30, 30_000)
    mixed = packed(encoder, rows)
    for at in (0, 5, 11):
        (single,) = packed(encoder, [rows[at]])
        torch.testing.assert_close(mixed[at], single, atol=2e-5, rtol=2e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "t5"}, "a model of type 't5'"),
        ({"hidden_act": "silu"}, "the activation 'silu'"),
        ({"position_embedding_type": "relative_key"}, "positions of type"),
        ({"is_decoder": True}, "a decoder"),
    ],
)
def test_another_model_is_named(changes, words):
    assert words in unfit({"model_type": "bert", "hidden_act": "gelu"} | changes)
