import pytest

from headrace.schemas.errors import JobError
from headrace.schemas.plan import ResultFacts
from headrace.stages.model_folder import open_model_folder
from headrace.stages.task import check_task, result_facts

MULTI = "multi_label_classification"
SINGLE = "single_label_classification"


@pytest.fixture
def ask(make_job, write_model, tmp_path):
    """Make a job and the model folder that it names; `config` is the folder's."""

    def make(config=None, **changes):
        folder = write_model(tmp_path / "model", **(config or {}))
        job = make_job(model__path=str(folder), **changes)
        return job, open_model_folder(job.model)

    return make


def classify(**changes):
    return {"model__task": "classify", **changes}


@pytest.mark.parametrize(
    ("problem_type", "width", "activation", "threshold", "top_k"),
    [
        (None, 3, "softmax", None, 1),
        (SINGLE, 3, "softmax", None, 1),
        (None, 1, "sigmoid", None, 1),
        (SINGLE, 1, "sigmoid", None, 1),
        (MULTI, 3, "sigmoid", 0.5, 3),
        (MULTI, 1, "sigmoid", 0.5, 1),
    ],
    ids=str,
)
def test_the_model_s_configuration_chooses(ask, problem_type, width, activation, threshold, top_k):
    job, model = ask({"problem_type": problem_type}, **classify())
    check_task(job, model)
    facts = result_facts(job, model, width)
    assert (facts.activation, facts.threshold, facts.top_k) == (activation, threshold, top_k)
    assert facts.labels == ("0", "1", "2")[:width]


@pytest.mark.parametrize(
    ("problem_type", "width"),
    # transformers refuses a single label with one class.
    [(None, 1), (None, 4), (SINGLE, 4), (MULTI, 1), (MULTI, 4)],
)
def test_it_chooses_as_transformers_does(ask, problem_type, width):
    import torch
    from transformers import BertConfig, BertForSequenceClassification, TextClassificationPipeline
    from transformers.modeling_outputs import SequenceClassifierOutput

    names = {at: str(at) for at in range(width)}
    config = BertConfig(
        vocab_size=8,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        id2label=names,
        problem_type=problem_type,
    )
    pipeline = TextClassificationPipeline(
        model=BertForSequenceClassification(config), tokenizer=None, device="cpu"
    )
    logits = torch.tensor([[2.0, -1.0, 0.5, 0.25][:width]])
    theirs = pipeline.postprocess(SequenceClassifierOutput(logits=logits), top_k=None)
    job, model = ask({"problem_type": problem_type}, **classify())
    facts = result_facts(job, model, width)
    ours = {"softmax": logits.softmax(1), "sigmoid": logits.sigmoid()}[facts.activation][0]
    assert {entry["label"]: pytest.approx(entry["score"]) for entry in theirs} == dict(
        zip(facts.labels, ours.tolist(), strict=True)
    )


def test_the_job_s_threshold_and_top_k_are_taken(ask):
    for threshold in (0.0, 0.25, 1.0):
        job, model = ask(
            {"problem_type": MULTI}, **classify(model__threshold=threshold, model__top_k=2)
        )
        check_task(job, model)
        facts = result_facts(job, model, 3)
        assert (facts.threshold, facts.top_k) == (threshold, 2)


def test_a_vector_s_facts(ask):
    job, model = ask()
    assert result_facts(job, model, 4) == ResultFacts(
        task="embed", width=4, max_length=16, pooling="mean", normalize=True
    )
    job, model = ask(model__truncate_dim=3, output__dtype="float16")
    facts = result_facts(job, model, 4)
    assert (facts.width, facts.truncate_dim, facts.dtype) == (3, 3, "float16")
    assert result_facts(job, model, 3).width == 3


def test_more_values_than_the_model_has_are_refused(ask):
    job, model = ask(model__truncate_dim=5)
    with pytest.raises(JobError, match=r"truncate_dim: expected at most the model's 4 values, got"):
        result_facts(job, model, 4)


def test_more_classes_than_the_model_has_are_refused(ask):
    job, model = ask({"problem_type": MULTI}, **classify(model__top_k=5))
    with pytest.raises(JobError, match=r"top_k: expected at most the model's 4 classes, got 5"):
        result_facts(job, model, 4)


@pytest.mark.parametrize("problem_type", ["regression", "token_classification", "", 7], ids=str)
def test_another_kind_of_model_is_refused(ask, problem_type):
    job, model = ask({"problem_type": problem_type}, **classify())
    with pytest.raises(
        JobError, match=rf"model\.task: expected .* got problem_type {problem_type!r}"
    ):
        check_task(job, model)
    check_task(*ask({"problem_type": problem_type}))  # an embedding does not ask


@pytest.mark.parametrize("problem_type", [None, SINGLE])
def test_a_threshold_is_for_several_labels(ask, problem_type):
    job, model = ask({"problem_type": problem_type}, **classify(model__threshold=0.5))
    with pytest.raises(JobError, match=r"model\.threshold: expected a multi-label classifier, got"):
        check_task(job, model)


@pytest.mark.parametrize("problem_type", [None, MULTI])
def test_half_precision_is_for_vectors(ask, problem_type):
    job, model = ask({"problem_type": problem_type}, **classify(output__dtype="float16"))
    with pytest.raises(JobError, match=r"output\.dtype: expected float32 for task: classify"):
        check_task(job, model)


def test_the_configured_labels_bound_top_k_before_anything_is_loaded(ask):
    config = {"id2label": {"0": "no", "1": "yes"}}
    check_task(*ask(config, **classify(model__top_k=2)))
    with pytest.raises(JobError, match=r"model\.top_k: expected at most the model's 2 classes"):
        check_task(*ask(config, **classify(model__top_k=3)))
