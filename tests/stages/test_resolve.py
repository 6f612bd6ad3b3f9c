import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from headrace.schemas.errors import HeadraceError, JobError
from headrace.schemas.plan import ResultFacts, Slice
from headrace.stages import resolve as module
from headrace.stages import trial
from headrace.stages.model_folder import open_model_folder
from headrace.stages.read import Source
from headrace.stages.resolve import resolve

WORDS = ["one", "two", "three", "four", "one two", "three four one two", ""]


@pytest.fixture
def ask(tmp_path, make_job, tiny_model):
    """Resolve a job over some texts with the modules that `load` makes of a precision."""

    def make(load, texts=None, folder=tiny_model, **changes):
        texts = WORDS * 30 if texts is None else texts
        table = pa.table({"text": pa.array(texts, pa.string())})
        pq.write_table(table, tmp_path / "a.parquet")
        slices = [Slice("a.parquet", 0, 0, len(texts))] if texts else []
        job = make_job(model__path=str(folder), **changes)
        source = Source(tmp_path, job.input, table.schema)
        return resolve(job, open_model_folder(job.model), source, slices, 1_000, "cpu", load)

    return make


class Clock:
    """Stands in for `time` in resolve.py: it moves when a module says so, and hardly by itself."""

    now = 0.0

    def perf_counter(self):
        self.now += 1e-6
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(trial, "time", clock := Clock())
    return clock


class Paced(torch.nn.Module):
    """Another module that takes its time, and with something done to what it gives."""

    def __init__(self, inner, clock, takes_s=1.0, change=lambda hidden, ids: hidden):
        super().__init__()
        self.inner, self.clock, self.takes_s, self.change = inner, clock, takes_s, change

    def forward(self, input_ids, attention_mask):
        self.clock.now += self.takes_s
        return self.change(self.inner(input_ids, attention_mask), input_ids)


@pytest.fixture
def native_bf16(monkeypatch):
    monkeypatch.setattr(module, "multiplies_bf16", lambda _: True)


@pytest.fixture
def both(tiny_encoder, clock):
    """Give fp32 and bf16 their own pace and change."""

    def make(fp32=None, bf16=None):
        made = {"fp32": fp32 or {}, "bf16": bf16 or {}}
        return lambda precision: Paced(tiny_encoder(), clock, **made[precision])

    return make


def test_the_result_s_facts_come_from_one_row(ask, tiny_encoder):
    found = ask(lambda _: tiny_encoder(), model__precision="fp32", model__normalize=False)
    assert found.facts == ResultFacts(
        task="embed", width=4, max_length=16, pooling="mean", normalize=False
    )
    assert found.weights_bytes == 11 * 4 * 4


def test_the_grid_comes_from_the_sample(ask, tiny_encoder):
    found = ask(
        lambda _: tiny_encoder(),
        model__precision="fp32",
        compute__batch_tokens=64,
        compute__max_shapes=3,
    )
    grid = found.grid
    assert grid.sample_rows == 7 * 30
    assert grid.sample_tokens == 30 * (4 * 3 + 4 + 6 + 2)
    assert grid.batch_tokens == 64
    assert len(grid.shapes) <= 3
    assert grid.shapes[-1].length == 16
    assert 0.0 <= grid.padding_share < 0.3


@pytest.fixture
def asked():
    return []


@pytest.fixture
def recording(tiny_encoder, asked):
    """Load an encoder, and remember for which precision."""

    def load(precision):
        asked.append(precision)
        return tiny_encoder()

    return load


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_job_s_precision_is_taken_without_a_trial(ask, recording, asked, precision):
    road = ask(recording, model__precision=precision).road
    assert asked == [precision]
    assert (road.device, road.precision, road.reason) == ("cpu", precision, "as the job says")
    assert road.tokens_per_s > 0


def test_without_native_bf16_it_is_not_tried(ask, recording, asked, monkeypatch):
    monkeypatch.setattr(module, "multiplies_bf16", lambda _: False)
    road = ask(recording).road
    assert asked == ["fp32"]
    assert (road.precision, "natively" in road.reason) == ("fp32", True)


@pytest.mark.usefixtures("native_bf16")
def test_bf16_is_taken_when_it_is_equal_and_faster(ask, both):
    road = ask(both(fp32={"takes_s": 1.5})).road
    assert road.precision == "bf16"
    assert road.reason == "cosine 1.00000 to fp32, 1.50 times as fast in a trial"


@pytest.mark.usefixtures("native_bf16")
def test_bf16_is_not_taken_when_it_is_slower(ask, both):
    road = ask(both(bf16={"takes_s": 1.5})).road
    assert road.precision == "fp32"
    assert road.reason == "bf16 was tried: only 0.67 times as fast in a trial"


def turned(hidden, _ids):
    return hidden.roll(1, dims=-1)


def no_number(hidden, ids):
    return hidden.masked_fill((ids == 7)[..., None], torch.nan)


def zeros(hidden, _ids):
    return torch.zeros_like(hidden)


def zero_for_one_word(hidden, ids):
    return hidden * (ids != 7).all(1)[:, None, None]


@pytest.mark.usefixtures("native_bf16")
@pytest.mark.parametrize(
    "change", [turned, no_number, zeros, zero_for_one_word], ids=lambda change: change.__name__
)
def test_bf16_is_not_taken_when_its_results_differ(ask, both, change):
    """However fast it is."""
    road = ask(both(fp32={"takes_s": 1.5}, bf16={"change": change})).road
    assert road.precision == "fp32"
    assert "bf16 was tried" in road.reason
    assert "than to" not in road.reason


@pytest.mark.usefixtures("native_bf16")
def test_two_zero_vectors_are_the_same_result(ask, both):
    road = ask(both(fp32={"takes_s": 1.5, "change": zeros}, bf16={"change": zeros})).road
    assert road.precision == "bf16"


@pytest.mark.usefixtures("native_bf16")
def test_bf16_is_not_taken_when_it_can_not_compute_a_row(ask, both):
    def fail(hidden, ids):
        if ids.shape[0] > 1 or ids.shape[1] > 3:  # not the one row that tells the width
            raise ValueError("no such kernel")
        return hidden

    texts = ["one two three"] * 100
    road = ask(both(bf16={"change": fail}), texts=texts).road
    assert road.precision == "fp32"


@pytest.mark.usefixtures("native_bf16")
def test_rows_that_neither_can_compute_do_not_decide(ask, both):
    """They are isolated in the trial as in a run."""
    road = ask(both(fp32={"takes_s": 1.5}), texts=[*WORDS * 3, "boom", "nan"]).road
    assert road.precision == "bf16"


def logits(hidden, _ids):
    return hidden.mean(1)


def closer_logits(hidden, _ids):
    return hidden.mean(1) * 1e-3


def turned_logits(hidden, _ids):
    return hidden.mean(1).roll(1, dims=-1)


@pytest.mark.usefixtures("native_bf16")
@pytest.mark.parametrize(
    ("change", "precision"),
    [(logits, "bf16"), (closer_logits, "bf16"), (turned_logits, "fp32")],
)
def test_a_classifier_is_judged_by_its_labels(ask, both, change, precision):
    load = both(fp32={"takes_s": 1.5, "change": logits}, bf16={"change": change})
    road = ask(load, model__task="classify").road
    assert road.precision == precision
    assert "label agreement" in road.reason


@pytest.fixture
def classifier(tiny_encoder, clock):
    def load(_precision):
        return Paced(tiny_encoder(), clock, change=lambda hidden, _: {"logits": hidden.mean(1)})

    return load


def test_labels_come_from_the_model_or_are_numbers(ask, classifier, write_model, tmp_path):
    known = {"model__precision": "fp32", "model__task": "classify"}
    assert ask(classifier, **known).facts.labels == ("0", "1", "2", "3")
    names = {str(at): name for at, name in enumerate("abcd")}
    folder = write_model(tmp_path / "named", id2label=names)
    assert ask(classifier, folder=folder, **known).facts.labels == tuple("abcd")
    folder = write_model(tmp_path / "two", id2label={"0": "no", "1": "yes"})
    assert ask(classifier, folder=folder, **known).facts.labels == tuple("0123")


def test_more_classes_than_the_model_has_are_refused(ask, classifier):
    known = {"model__precision": "fp32", "model__task": "classify"}
    assert ask(classifier, **known, model__top_k=4).facts.top_k == 4
    with pytest.raises(JobError, match=r"top_k: expected at most the model's 4 classes, got 5"):
        ask(classifier, **known, model__top_k=5)


@pytest.mark.parametrize("texts", [[], [None, None]])
def test_an_input_without_a_text_is_resolved_too(ask, tiny_encoder, texts):
    found = ask(lambda _: tiny_encoder(), texts=texts, model__precision="fp32")
    assert found.facts.width == 4
    assert [shape.length for shape in found.grid.shapes] == [16]
    assert (found.grid.sample_rows, found.grid.padding_share) == (0, 0.0)


def test_texts_without_a_token_are_resolved_too(ask, tiny_encoder, write_model, tmp_path):
    folder = write_model(tmp_path / "bare", special=False)
    found = ask(lambda _: tiny_encoder(), texts=["", ""], folder=folder, model__precision="fp32")
    assert found.facts.width == 4
    assert found.grid.sample_tokens == 0


def test_a_model_that_fails_on_any_row_is_the_job_s_fault(ask, both):
    def fail(hidden, ids):
        raise ValueError("expected 3 arguments")

    with pytest.raises(JobError, match="expected 3 arguments"):
        ask(both(fp32={"change": fail}), model__precision="fp32")


def test_a_model_of_the_wrong_rank_is_the_job_s_fault(ask, tiny_encoder):
    with pytest.raises(JobError, match="logits"):
        ask(lambda _: tiny_encoder(), model__precision="fp32", model__task="classify")


def test_a_model_that_fails_on_every_row_of_the_input_stops_the_run(ask, tiny_encoder):
    with pytest.raises(HeadraceError, match="64"):
        ask(lambda _: tiny_encoder(), texts=["boom"] * 100, model__precision="fp32")


PACKED = {"model__road": "packed", "model__precision": "fp32", "compute__batch_tokens": 64}


def test_packs_are_held_against_transformers_padded_rows(ask, tiny_bert):
    found = ask(lambda _: tiny_bert(), **PACKED)
    assert found.grid.shapes == ()
    assert [pack.tokens for pack in found.grid.packs] == [64, 32, 16, 8]
    assert found.grid.padding_share < 0.1
    assert found.road.layout == "packed"
    assert found.road.reason == "as the job says; packed: cosine 1.00000 to transformers"
    assert found.facts.width == 64


@pytest.mark.usefixtures("native_bf16")
def test_packs_have_their_precision_chosen_too(ask, tiny_bert):
    loaded = []

    def load(precision):
        loaded.append(precision)
        return tiny_bert().to(torch.bfloat16 if precision == "bf16" else torch.float32)

    road = ask(load, **PACKED | {"model__precision": "auto"}).road
    assert loaded == ["fp32", "fp32", "bf16"]
    assert road.layout == "packed"
    assert road.reason.endswith("; packed: cosine 1.00000 to transformers")


def test_packs_that_give_something_else_are_refused(ask, tiny_bert):
    def load(_precision):
        return tiny_bert(lambda hidden: hidden.roll(1, dims=-1))

    with pytest.raises(JobError, match=r"model\.road: expected packed rows to give what .* cosine"):
        ask(load, **PACKED)
    assert ask(load, **PACKED | {"model__road": "auto"}).road.layout == "bucketed"


def test_a_model_of_another_family_is_not_packed(ask, tiny_encoder):
    with pytest.raises(JobError, match=r"model\.road: expected a model of BERT's family"):
        ask(lambda _: tiny_encoder(), **PACKED)


@pytest.mark.parametrize(("texts", "special"), [([], True), ([None], True), (["", ""], False)])
def test_packs_of_nothing_are_resolved_too(ask, tiny_bert, write_model, tmp_path, texts, special):
    folder = write_model(tmp_path / "m", special=special)
    found = ask(lambda _: tiny_bert(), texts=texts, folder=folder, **PACKED)
    assert (found.facts.width, found.grid.sample_tokens) == (64, 0)
