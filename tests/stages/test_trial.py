import numpy as np
import pyarrow as pa
import pytest

from headrace.stages.model_folder import open_model_folder
from headrace.stages.tokenize import load_tokenizer, tokenize
from headrace.stages.trial import Bench, pad_id, weights_bytes


@pytest.fixture
def bench(make_job, tiny_model, tiny_encoder):
    def make(texts, encoder=None, **changes):
        job = make_job(model__path=str(tiny_model), **changes)
        model = open_model_folder(job.model)
        probe = tokenize(pa.array(texts), load_tokenizer(model), lowercase=False)
        return Bench(job, model, probe, "cpu", lambda _: encoder or tiny_encoder())

    return make


def test_a_sample_of_64_rows_is_spread_over_the_lengths(bench):
    texts = ["one"] * 500 + ["one two three four one two"] * 500
    tried = bench(texts)
    results = tried.try_out(tried.forward("fp32")).results
    assert results.valid.sum() == 64
    assert results.valid[:500].sum() == results.valid[500:].sum() == 32


def test_a_row_that_can_not_be_computed_is_isolated(bench):
    tried = bench(["one", "boom", "two"])
    assert tried.try_out(tried.forward("fp32")).results.valid.tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", ["float16", "int8", "binary"])
def test_vectors_are_judged_in_float32_whatever_is_written(bench, dtype):
    tried = bench(["one", "two"], output__dtype=dtype)
    trial = tried.try_out(tried.forward("fp32"))
    assert trial.results.values.dtype == np.float32
    assert trial.results.values.shape == (2, 4)
    assert trial.forward.facts.dtype == dtype


def test_the_facts_come_from_the_model(bench):
    forward = bench(["one"]).forward("fp32")
    assert forward.facts.width == 4
    assert weights_bytes(forward.module) == 11 * 4 * 4


@pytest.mark.parametrize(
    ("said", "expected"), [({}, 0), ({"pad_token_id": None}, 0), ({"pad_token_id": 1}, 1)]
)
def test_the_padding_is_the_model_s(write_model, make_job, tmp_path, said, expected):
    folder = write_model(tmp_path / "m", **said)
    assert pad_id(open_model_folder(make_job(model__path=str(folder)).model)) == expected
