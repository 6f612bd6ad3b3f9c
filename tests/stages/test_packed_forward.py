import copy

import numpy as np
import pytest
import torch
from cuda_standin import LateCuda
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    BertConfig,
    DistilBertConfig,
    RobertaConfig,
)

from headrace.schemas.errors import JobError
from headrace.schemas.plan import ResultFacts
from headrace.stages import packed_forward as module
from headrace.stages.cuda_forward import CudaForward
from headrace.stages.forward import Forward
from headrace.stages.grid import batches_of, make_grid, pack_sizes
from headrace.stages.handover import put
from headrace.stages.isolate import run_batches
from headrace.stages.packed_forward import pack_forward
from headrace.stages.ragged import Ragged, Specials
from headrace.stages.results import Results
from headrace.stages.trial import weights_bytes

LONGEST = 24
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
CONFIGS = {
    "bert": BertConfig(vocab_size=99, intermediate_size=96, **SMALL),
    "distilbert": DistilBertConfig(vocab_size=99, dim=64, n_layers=2, n_heads=2, hidden_dim=96),
    "roberta": RobertaConfig(vocab_size=99, intermediate_size=96, pad_token_id=1, **SMALL),
}


def tokens(rows=30):
    """Rows of 0 to 30 bare tokens, the longest of which are cut, and their specials."""
    random = np.random.default_rng(0)
    counts = random.integers(0, 31, rows)
    ids = random.integers(4, 98, int(counts.sum())).astype(np.int32)
    starts = np.cumsum(counts) - counts
    return Ragged(ids, starts, counts, np.ones(rows, np.bool_), LONGEST, Specials((2,), (3,)))


def grids(ragged):
    """A grid of shapes of one length, and one of packs."""
    from headrace.stages.shapes import choose_grid

    shapes = choose_grid(
        ragged.lengths, max_length=LONGEST, max_shapes=3, batch_tokens=96, multiple=1
    )
    packs = pack_sizes(ragged.lengths, max_length=LONGEST, batch_tokens=96)
    return (
        make_grid(ragged.lengths, 96, 30, shapes=shapes),
        make_grid(ragged.lengths, 96, 30, packs=packs),
    )


def results_of(runner, ragged, grid):
    on_device, results = put(ragged, "cpu"), Results(ragged.counts.size, runner.facts)
    batches = batches_of(grid, np.arange(ragged.counts.size), ragged.lengths)
    outcome = run_batches(
        batches, lambda batch: runner.launch(on_device, batch), results.place, runner.depth
    )
    assert outcome.faults == {}
    assert results.valid.all()
    return results


@pytest.fixture(scope="module")
def padded():
    """Make a forward pass of a random model of a family for padded rows."""

    def make(family, **changes):
        torch.manual_seed(0)
        known = {"task": "embed", "width": 64, "max_length": LONGEST, "pooling": "mean"}
        facts = ResultFacts(**known | {"normalize": True} | changes)
        config = copy.deepcopy(CONFIGS[family])
        if facts.task == "classify":
            config = type(config)(**config.to_dict() | {"num_labels": 5})
            loaded = AutoModelForSequenceClassification.from_config(config)
        else:
            loaded = AutoModel.from_config(config)
        for parameter in loaded.parameters():  # biases and norms that do something
            parameter.data.add_(torch.randn_like(parameter) * 0.05)
        return Forward(loaded.eval(), "cpu", facts, int(config.pad_token_id))

    return make


SCORES = {"task": "classify", "width": 5, "top_k": 2}
ASKED = {
    "mean": {},
    "cls": {"pooling": "cls"},
    "last": {"pooling": "last", "normalize": False},
    "max": {"pooling": "max", "truncate_dim": 10, "width": 10},
    "labels": SCORES,
    "sigmoid": SCORES | {"top_k": 5, "activation": "sigmoid", "threshold": 0.5},
}


@pytest.mark.parametrize(
    ("family", "what"),
    [
        *(("bert", what) for what in ASKED),
        *((family, what) for family in ("distilbert", "roberta") for what in ("mean", "labels")),
    ],
)
def test_packs_give_what_padded_rows_give(padded, family, what):
    whole, ragged = padded(family, **ASKED[what]), tokens()
    shapes, packs = grids(ragged)
    expected = results_of(whole, ragged, shapes)
    found = results_of(pack_forward(whole), ragged, packs)
    np.testing.assert_allclose(found.values, expected.values, atol=2e-5, rtol=2e-4)
    assert (found.classes == expected.classes).mean() > 0.99
    assert found.values.std() > 1e-3


@pytest.mark.parametrize("asked", [{}, SCORES])
def test_one_graph_serves_every_pack(padded, asked):
    """Replayed with other rows than it was captured with, and with fewer of them."""
    inner, ragged = pack_forward(padded("bert", **asked)), tokens()
    _, packs = grids(ragged)
    runner = CudaForward(inner, LateCuda())
    runner.warm_up(packs.sizes)
    assert runner.captured == 4
    expected = results_of(inner, ragged, packs)
    found = results_of(runner, ragged, packs)
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.classes, expected.classes)


def test_a_row_that_is_not_finite_does_not_spoil_its_pack(padded):
    inner = pack_forward(padded("bert"))
    inner.module.encoder.words.data[98] = torch.nan
    ragged = tokens(10)
    ragged.ids[ragged.starts[4]] = 98
    on_device, results = put(ragged, "cpu"), Results(10, inner.facts)
    _, packs = grids(ragged)
    batches = batches_of(packs, np.arange(10), ragged.lengths)
    outcome = run_batches(batches, lambda batch: inner.launch(on_device, batch), results.place)
    assert outcome.faults == {4: "NonFiniteResult in forward"}
    assert results.valid.sum() == 9


def test_the_weights_are_counted_and_the_first_model_may_go(padded):
    """Query, key and value are one product; pooling's dense layer is not read for embeddings."""
    whole = padded("bert")
    pooler = weights_bytes(whole.module.pooler)
    kinds = 64 * 4  # of two sentence kinds, one is used
    packed = pack_forward(whole)
    assert weights_bytes(packed.module) == weights_bytes(whole.module) - pooler - kinds
    assert not any(parameter.requires_grad for parameter in packed.module.parameters())


class Bare(torch.nn.Module):
    """A module without a configuration."""


def test_a_model_that_can_not_run_packed_is_the_job_s_fault(padded):
    whole = padded("bert")
    whole.module.config.hidden_act = "silu"
    with pytest.raises(JobError, match=r"model\.road: expected a model of BERT's family.*'silu'"):
        pack_forward(whole)
    with pytest.raises(JobError, match=r"without a configuration\. Choose model\.road: bucketed"):
        pack_forward(Forward(Bare(), "cpu", whole.facts, 0))


def test_on_a_gpu_the_kernels_must_run(padded, monkeypatch):
    whole = padded("bert")
    whole.device = "cuda"
    monkeypatch.setattr(module, "triton_lack", lambda: "it is not installed")
    with pytest.raises(JobError, match="a GPU without Triton: it is not installed"):
        pack_forward(whole)
    monkeypatch.setattr(module, "triton_lack", lambda: None)
    whole.module.config.num_attention_heads = 4
    with pytest.raises(JobError, match=r"heads of 16 values, not one of \[32, 64, 128\]"):
        pack_forward(whole)
