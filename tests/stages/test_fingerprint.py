import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schemas.plan import InputFile
from headrace.stages.fingerprint import (
    SHOWN_DIFFERENCES,
    differences,
    input_fingerprint,
    job_fields,
    job_fingerprint,
)


@pytest.fixture
def print_of(make_job):
    def make(digest="d", **changes):
        return job_fingerprint(job_fields(make_job(**changes), digest))

    return make


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"input__path": "elsewhere"},
        {"input__text": ["text"]},
        {"model__path": "elsewhere"},
        {"output__path": "elsewhere"},
        {"output__compression": "none"},
        {"shards__target_rows": 7},
        {"shards__target_bytes": 7},
        {"compute__device": "cpu"},
        {"compute__workers": 3},
        {"compute__max_attempts": 9},
        {"compute__batch_tokens": 99},
        {"compute__max_shapes": 3},
        {"errors__max_ratio": 1.0},
        {"price__per_hour": 3.0},
        {"errors__mode": None},
    ],
    ids=str,
)
def test_what_can_not_change_a_result_is_outside(print_of, changes):
    assert print_of(**changes) == print_of()


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": "other"},
        {"input__text": "other"},
        {"input__text": ["text", "more"]},
        {"input__limit": 10},
        {"model__task": "classify"},
        {"model__pooling": "cls"},
        {"model__normalize": False},
        {"model__max_length": 7},
        {"model__precision": "fp32"},
        {"model__precision": "bf16"},
        {"model__factory": "mine:build"},
        {"errors__mode": "drop"},
        {"output__columns": []},
        {"output__columns": ["text"]},
        {"output__prefix": "b_"},
        {"output__dtype": "float16"},
        {"model__truncate_dim": 2},
        {"model__task": "classify", "model__threshold": 0.25},
        {"model__prompt": ""},
        {"model__prompt": "query"},
        {"preprocess": ["strip"]},
        {"preprocess": [{"replace": {"find": "a", "with": "b"}}]},
        {"preprocess": [{"python": "my_steps:clean"}]},
    ],
    ids=str,
)
def test_what_can_change_a_result_is_inside(print_of, changes):
    assert print_of(**changes) != print_of()


def test_options_and_top_k_are_inside(print_of):
    factory = {"model__factory": "mine:build"}
    assert print_of(**factory, model__options={"a": 1}) != print_of(**factory)
    classify = {"model__task": "classify"}
    assert print_of(**classify, model__top_k=2) != print_of(**classify)


def test_the_order_of_columns_is_inside(print_of):
    assert print_of(input__text=["a", "b"]) != print_of(input__text=["b", "a"])
    assert print_of(output__columns=["a", "b"]) != print_of(output__columns=["b", "a"])


def test_every_setting_of_a_step_and_the_order_are_inside(print_of):
    replace = {"find": "a", "with": "b", "regex": False}
    jobs = [
        ["strip", "lower"],
        ["lower", "strip"],
        [{"replace": replace}],
        [{"replace": replace | {"with": "c"}}],
        [{"replace": replace | {"regex": True}}],
    ]
    assert len({print_of(preprocess=steps) for steps in jobs}) == len(jobs)
    short = {"find": "a", "with": "b"}  # the same, its default not written
    assert print_of(preprocess=[{"replace": short}]) == print_of(preprocess=jobs[2])


def test_every_field_of_the_model_is_judged(make_job):
    """A new key changes results until somebody says that it can't."""
    job = make_job()
    inside = {key.removeprefix("model.") for key in job_fields(job, "d") if "model." in key}
    assert inside == set(type(job.model).model_fields) - {"path", "sha256"} | {"digest"}


def file(path="a", size=1, sha256="f", rows=1):
    return InputFile(path=path, size_bytes=size, footer_sha256=sha256, rows=rows)


def test_the_input_s_fingerprint_sees_path_size_and_footer():
    prints = [
        input_fingerprint(files)
        for files in (
            [file()],
            [file("b")],
            [file(size=2)],
            [file(sha256="g")],
            [file(), file("b")],
            [file("b"), file()],
            [],
        )
    ]
    assert len(set(prints)) == len(prints)
    assert prints[0] == input_fingerprint([file()])


def test_a_copy_and_a_touch_change_nothing(tmp_path, footers_of):
    original = tmp_path / "one" / "a.parquet"
    copy = tmp_path / "two" / "a.parquet"
    original.parent.mkdir()
    copy.parent.mkdir()
    pq.write_table(pa.table({"text": ["one"]}), original)
    shutil.copyfile(original, copy)
    os.utime(copy, (1, 1))
    prints = {
        input_fingerprint([footer.file for footer in footers_of(place)[1]])
        for place in (original, copy, copy.parent)
    }
    assert len(prints) == 1


@pytest.fixture
def header(make_job, make_resolved):
    """A stand-in for a plan's header: differences reads two of its fields."""

    class Header:
        job_fields = job_fields(make_job(), "old")
        files = (file("gone"), file("same"), file("longer"), file("other"))

    return Header()


def test_differences_are_said_in_plain_lines(header, make_job):
    fields = job_fields(make_job(model__max_length=8), "new")
    files = [file("same"), file("longer", size=9), file("other", sha256="g"), file("fresh")]
    assert differences(header, fields, files) == [
        "model.digest: the output has 'old', the job says 'new'",
        "model.max_length: the output has None, the job says 8",
        "input file fresh: new",
        "input file gone: gone",
        "input file longer: was 1 bytes, is 9",
        "input file other: its footer differs",
    ]


def test_no_difference_no_line(header, make_job):
    assert differences(header, job_fields(make_job(), "old"), header.files) == []


def test_a_key_that_only_one_side_knows_is_a_difference(header, make_job):
    fields = job_fields(make_job(), "old") | {"model.new": 1}
    lines = differences(header, fields, header.files)
    assert lines == ["model.new: the output has None, the job says 1"]


def test_only_some_of_many_changed_files_are_listed(header, make_job):
    files = [file(f"new{at}") for at in range(20)]
    lines = differences(header, job_fields(make_job(), "old"), files)
    assert len(lines) == SHOWN_DIFFERENCES + 1
    assert lines[-1] == f"… and {24 - SHOWN_DIFFERENCES} more input files"
