from pathlib import Path

import pytest
import yaml

from headrace.flows.job_file import load_job, parse_job
from headrace.schemas.errors import JobError
from headrace.schemas.job import Job

JOB = """
name: unit
input: {path: in, text: text}
model: {path: model, task: embed}
output: {path: out}
"""


@pytest.fixture
def write(tmp_path):
    def make(text=JOB):
        file = tmp_path / "job.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return make


def data(**sections):
    content = yaml.safe_load(JOB)
    for key, value in sections.items():
        content[key] = content.get(key, {}) | value if isinstance(value, dict) else value
    return content


def refusal(content):
    with pytest.raises(JobError) as caught:
        parse_job(content)
    first, *lines = str(caught.value).split("\n  ")
    assert first == "the job is not valid:"
    return lines


def test_a_job_file_becomes_a_job(write):
    job = load_job(write())
    assert isinstance(job, Job)
    assert (job.name, job.input.path, job.model.task) == ("unit", "in", "embed")
    assert load_job(str(write())) == job


def test_the_demo_is_a_job():
    demo = Path(__file__).parents[2] / "configs" / "jobs" / "demo.yaml"
    assert load_job(demo).model.task == "embed"


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        ({"modl": {}}, "modl: unknown key; did you mean 'model'?"),
        ({"input": {"pth": "x"}}, "input.pth: unknown key; did you mean 'path'?"),
        ({"model": {"poling": "x"}}, "model.poling: unknown key; did you mean 'pooling'?"),
        (
            {"shards": {"target_row": 1}},
            "shards.target_row: unknown key; did you mean 'target_rows'?",
        ),
        ({"compute": {"worker": 1}}, "compute.worker: unknown key; did you mean 'workers'?"),
        (
            {"errors": {"max_ration": 1}},
            "errors.max_ration: unknown key; did you mean 'max_ratio'?",
        ),
        (
            {"price": {"per_hour": 1, "curency": "x"}},
            "price.curency: unknown key; did you mean 'currency'?",
        ),
        ({"output": {"colums": []}}, "output.colums: unknown key; did you mean 'columns'?"),
        (
            {"compute": {"batch-tokens": 9}},
            "compute.batch-tokens: unknown key; did you mean 'batch_tokens'?",
        ),
        ({"max-length": 9}, "max-length: unknown key"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_key_suggests_the_nearest(sections, line):
    (found,) = refusal(data(**sections))
    assert found.startswith(line)


def test_a_key_like_no_other_gets_the_list():
    (line,) = refusal(data(errors={"zzz": 1}))
    assert line == "errors.zzz: unknown key; known here: mode, max_ratio, keep_input"


def test_a_missing_key_is_named():
    content = data()
    del content["model"], content["input"]["text"]
    assert set(refusal(content)) == {
        "model: expected a value, got none",
        "input.text: expected a value, got none",
    }


def test_every_fault_is_named_at_once():
    lines = refusal(data(name="a/b", shards={"target_rows": 0}, errors={"max_ratio": 2, "x": 1}))
    assert {line.partition(":")[0] for line in lines} == {
        "name",
        "shards.target_rows",
        "errors.max_ratio",
        "errors.x",
    }


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"input": {"text": 5}}, "input.text"),
        ({"input": {"text": []}}, "input.text"),
        ({"input": {"text": [1]}}, "input.text"),
        ({"compute": {"workers": "many"}}, "compute.workers"),
        ({"compute": {"max_shapes": 65}}, "compute.max_shapes"),
        ({"model": {"task": "translate"}}, "model.task"),
        ({"price": 3}, "price"),
        ({"input": "in"}, "input"),
        ({"model": {"factory": "x"}}, "model.factory"),
    ],
    ids=str,
)
def test_a_bad_value_is_shown_under_the_job_s_own_key(sections, key):
    content = data() | sections if key in ("price", "input") else data(**sections)
    for line in refusal(content):
        found = line.partition(": ")[0]
        assert found == key or found.removeprefix(f"{key}.").isdigit(), line
        assert ", got " in line


def test_rules_between_keys_say_what_they_are():
    (line,) = refusal(data(model={"top_k": 3}))
    assert "model.top_k is for task: classify" in line
    (line,) = refusal(data(model={"threshold": 0.5}))
    assert "model.threshold is for task: classify" in line
    (line,) = refusal(data(model={"truncate_dim": 2, "task": "classify"}))
    assert "model.truncate_dim is for task: embed" in line
    (line,) = refusal(data(model={"options": {"a": 1}}))
    assert "model.options are given to model.factory" in line


def test_a_long_value_is_cut():
    (line,) = refusal(data(name="x/" * 900))
    assert len(line) < 300


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("strp", "preprocess.1: unknown step 'strp'; did you mean 'strip'?"),
        ({"lower": None}, "preprocess.1: expected lower alone: it takes no setting"),
        (
            {"truncate_chars": 0},
            "preprocess.1.truncate_chars: expected a number of at least 1, got 0",
        ),
        (
            {"replace": {"find": "a", "with": "", "regexp": True}},
            "preprocess.1.replace.regexp: unknown key; did you mean 'regex'?",
        ),
        (
            {"replace": {"find": "a", "wiht": ""}},
            "preprocess.1.replace.wiht: unknown key; did you mean 'with'?",
        ),
        ({"replace": {"find": "a"}}, "preprocess.1.replace.with: expected a value, got none"),
        ({"replace": {"find": 1, "with": ""}}, "preprocess.1.replace.find: expected text, got 1"),
        (
            {"replace": {"find": "(", "with": "", "regex": True}},
            "preprocess.1.replace: expected RE2's syntax in find and with, got: Invalid regular",
        ),
        ({"template": "{title"}, "preprocess.1.template: expected {COLUMN}, and {{ or }} for"),
        ({"concat": {"columns": "a"}}, "preprocess.1.concat.columns: expected a list, got 'a'"),
        ({"python": "clean"}, "preprocess.1.python: expected MODULE:FUNCTION, got 'clean'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_step_s_fault_is_shown_under_the_job_s_own_key(step, line):
    lines = refusal(data(preprocess=["strip", step]))
    assert lines[-1].startswith(line)
    assert len(lines) == (2 if "wiht" in line else 1)  # then `with` is missing too


def test_steps_may_be_written_in_yaml_and_set_from_outside(write):
    text = """
preprocess:
  - strip
  - replace: {find: '[0-9]+', with: "0", regex: true}
  - concat:
      columns: [title, text]
  - python: my_steps:clean
"""
    bare, replace, concat, python = load_job(write(JOB + text)).preprocess
    assert bare == "strip"
    assert (replace.replace.find, replace.replace.with_) == ("[0-9]+", "0")
    assert concat.concat.columns == ("title", "text")
    assert python.python == "my_steps:clean"
    override = "preprocess=[lower, {truncate_chars: 5}]"
    assert load_job(write(JOB + text), [override]).preprocess[1].truncate_chars == 5
    assert parse_job(data(preprocess=[])).preprocess == ()


@pytest.mark.parametrize("text", ["null", "~", "", '"null"'])
def test_the_mode_null_may_be_written_without_quotes(write, text):
    assert load_job(write(JOB + f"errors: {{mode: {text}}}")).errors.mode == "null"


def test_a_null_section_or_key_is_not_passed_over():
    assert parse_job(data(price=None)).price is None
    (line,) = refusal(data(shards=None))
    assert line.startswith("shards: ")


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("shards.target_rows=1000", lambda job: job.shards.target_rows == 1_000),
        ("name=other", lambda job: job.name == "other"),
        ("model.normalize=false", lambda job: job.model.normalize is False),
        ("price.per_hour=1.5", lambda job: job.price.per_hour == 1.5),
        ("price.per_hour=1e-3", lambda job: job.price.per_hour == 0.001),
        ("input.text=[a, b]", lambda job: job.input.text == ("a", "b")),
        ("output.columns=[]", lambda job: job.output.columns == ()),
        ("output.path=a=b", lambda job: job.output.path == "a=b"),
        ("errors.mode=null", lambda job: job.errors.mode == "null"),
        ("errors={mode: drop}", lambda job: job.errors.mode == "drop"),
        ("model.max_length=", lambda job: job.model.max_length is None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_key_may_be_set_from_outside(write, override, read):
    assert read(load_job(write(), [override]))


def test_options_are_set_at_any_depth(write):
    sets = ["model.factory=mine:build", "model.options.a.b=[1]", "model.options.c=x"]
    assert load_job(write(), sets).model.options == {"a": {"b": [1]}, "c": "x"}


def test_the_last_word_counts(write):
    assert load_job(write(), ["name=a", "name=b"]).name == "b"


@pytest.mark.parametrize(
    "override", ["name", "=x", "", "name.deep=1", "input.path.deep=1", "name=[1", "name={a: b"]
)
def test_a_bad_override_is_shown(write, override):
    with pytest.raises(JobError, match="--set: expected") as caught:
        load_job(write(), [override])
    assert repr(override) in str(caught.value)


@pytest.mark.parametrize(
    "override", ["shards.target_row=1", "nme=x", "shards.=1", ".name=x", "a..b=1"]
)
def test_an_override_of_an_unknown_key_is_refused(write, override):
    with pytest.raises(JobError, match="unknown key"):
        load_job(write(), [override])


@pytest.mark.parametrize(
    "text",
    ["name: [1", "a: b: c", "\tname: x", b"\xff\xfe\x00", "name: !!python/object:os.system {}"],
    ids=["open list", "two colons", "tab", "no text", "code"],
)
def test_what_is_not_yaml_is_refused(write, text):
    with pytest.raises(JobError, match=r"expected YAML in .*job\.yaml"):
        load_job(write(text))


@pytest.mark.parametrize("text", ["", "7", "just text", "- name: x", "null"])
def test_what_is_no_mapping_is_refused(write, text):
    with pytest.raises(JobError, match=r"expected a job \(keys name, input, model, output\)"):
        load_job(write(text))


def test_keys_that_are_no_text_are_refused(write):
    with pytest.raises(JobError):
        load_job(write(JOB + "1: x\ntrue: y\n"))


@pytest.mark.parametrize("name", ["nothing.yaml", "."])
def test_a_file_that_can_not_be_read_is_named(tmp_path, name):
    with pytest.raises(JobError, match="expected a job file at"):
        load_job(tmp_path / name)
