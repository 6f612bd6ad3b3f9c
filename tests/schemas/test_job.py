import pytest
from pydantic import ValidationError

from headrace.schemas.job import Job


def test_the_defaults_are_those_of_the_design(make_job):
    job = make_job()
    assert job.shards.target_rows == 50_000
    assert job.errors.mode == "null"
    assert job.errors.max_ratio == 0.05
    assert job.model.normalize
    assert job.output.compression == "zstd"
    assert job.output.columns is None
    assert (job.output.prefix, job.output.dtype) == ("", "float32")
    assert (job.model.top_k, job.model.threshold, job.model.truncate_dim) == (None, None, None)
    assert job.price is None
    assert job.compute.max_attempts == 3


def test_one_text_column_and_several_read_alike(make_job):
    assert make_job(input__text="a").input.text_columns == ("a",)
    assert make_job(input__text=["a", "b"]).input.text_columns == ("a", "b")


def test_an_unquoted_null_is_the_mode_null(make_job):
    assert make_job(errors__mode=None).errors.mode == "null"


def test_a_job_is_frozen(make_job):
    job = make_job()
    with pytest.raises(ValidationError, match="frozen"):
        job.input.path = "elsewhere"


@pytest.mark.parametrize(
    "changes",
    [
        {"nme": "x"},
        {"input__pth": "x"},
        {"input__path": ""},
        {"input__text": []},
        {"input__limit": 0},
        {"name": "a/b"},
        {"name": ""},
        {"model__task": "translate"},
        {"model__precision": "fp8"},
        {"model__max_length": 0},
        {"model__top_k": 2},
        {"model__task": "classify", "model__top_k": 0},
        {"model__threshold": 0.5},
        {"model__task": "classify", "model__threshold": 1.5},
        {"model__task": "classify", "model__threshold": -0.1},
        {"model__task": "classify", "model__threshold": float("nan")},
        {"model__truncate_dim": 0},
        {"model__truncate_dim": 2, "model__task": "classify"},
        {"output__dtype": "bfloat16"},
        {"output__prefix": None},
        {"model__options": {"a": 1}},
        {"model__factory": "no-colon"},
        {"model__road": "graphs"},
        {"model__factory": "mine:build", "model__road": "packed"},
        {"preprocess": ["strp"]},
        {"preprocess": "strip"},
        {"model__task": "classify", "model__prompt": "query"},
        {"shards__target_rows": 0},
        {"shards__target_bytes": 0},
        {"compute__workers": 0},
        {"compute__max_shapes": 65},
        {"compute__device": "tpu"},
        {"compute__max_attempts": 0},
        {"errors__mode": "ignore"},
        {"errors__max_ratio": 1.5},
        {"price__per_hour": -1},
        {"price__per_hour": float("inf")},
        {"price__currency": "EUR"},
        {"output__compression": "lzma"},
    ],
    ids=str,
)
def test_a_bad_value_is_refused(make_job, changes):
    with pytest.raises(ValidationError):
        make_job(**changes)


def test_a_job_survives_json(make_job):
    job = make_job(
        input__text=["a", "b"],
        model__factory="mine:build",
        model__options={"deep": [1, {"x": None}]},
        price__per_hour=0.5,
        output__columns=["a"],
    )
    assert Job.model_validate_json(job.model_dump_json()) == job


def test_no_prompt_is_fine_for_every_task(make_job):
    assert make_job(model__task="classify", model__prompt="").model.prompt == ""
    assert make_job(model__task="embed", model__prompt="query").model.prompt == "query"
    assert make_job().model.prompt is None
