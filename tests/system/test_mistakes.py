"""Mistakes in a job file and at the prompt: one message each, and nothing touched."""

import re

import pytest
from cli_support import ROOT, demo_rows, tiny, write_job
from mistake_support import change, check, refused, run_here, tiny_job

JOB = "name: x\ninput: {path: in.parquet, text: text}\nmodel: {path: m, task: embed}\n"
WHOLE = JOB + "output: {path: out}\n"
DOCS = "docs/job.md"

# A job file's text, and what is said of it.
FILES = [
    ("not yaml", "name: [1\n", ("expected YAML in job.yaml", "line 2, column 1", DOCS)),
    ("two colons", "a: b: c\n", ("expected YAML", "line 1, column 5: mapping values", DOCS)),
    ("a tab", "name: x\ninput:\n\tpath: in\n", ("expected YAML", "line 3, column 1", "'\\t'")),
    ("no mapping", "- name: x\n", ("expected a job (keys name,", "got a list", DOCS)),
    ("only text", "embed it\n", ("expected a job", "got a str", DOCS)),
    ("empty", "", ("expected a job", "got nothing", DOCS)),
    ("binary", b"PAR1\x15\x04\xff\xfe", ("expected YAML", "can't decode byte 0xff")),
    ("null characters", b"name: \x00\x00", ("expected YAML", "unacceptable character")),
    ("nested", "[" * 5_000 + "]" * 5_000, ("expected YAML", "nested too deeply")),
    ("endless", "name: " + "x" * 1_100_000, ("expected YAML", "more than 1,000,000 characters")),
    ("a key twice", WHOLE + "name: y\n", ("expected YAML", "line 5", "'name' is there twice")),
    (
        "a key twice, deeper",
        JOB + "output:\n  path: a\n  path: b\n",
        ("line 6, column 3", "'path' is there twice"),
    ),
    ("code", "name: !!python/object:os.system {}\n", ("expected YAML", "line 1, column 7")),
    ("a section missing", JOB, ("output: expected a value, got none",)),
    ("a key of another type", WHOLE + "1: x\n", ("1: expected a key that is text, got 1",)),
    ("three mistakes", WHOLE + "a: 1\nb: 2\nshards: 5\n", ("a: unknown", "b: unknown", "shards:")),
    ("many mistakes", WHOLE + "".join(f"k{i}: 1\n" for i in range(90)), ("… and 84 more",)),
]

# What is overridden, and what is said of it.
OVERRIDES = [
    ("shards.target_row=5", ("shards.target_row: unknown key; did you mean 'target_rows'?",)),
    ("modl.path=x", ("modl: unknown key; did you mean 'model'?",)),
    ("price.zzz=1", ("price.zzz: unknown key; known here: per_hour, currency",)),
    ("name", ("--set: expected KEY=VALUE as in shards.target_rows=1000, got 'name'",)),
    ("=x", ("--set: expected KEY=VALUE", "got '=x'")),
    ("name.deep=1", ("--set: expected 'name'", "to be a section", "got 'job'")),
    ("name=[1", ("--set: expected a YAML value in 'name=[1'", "line 1")),
    ("shards=5", ("shards: expected a mapping, got 5",)),
    ("shards.target_rows=-5", ("shards.target_rows: expected a number of at least 1, got -5",)),
    ("shards.target_rows=1.5", ("shards.target_rows: expected a whole number, got 1.5",)),
    ("shards.target_rows=many", ("expected a whole number, got 'many'",)),
    ("shards.target_bytes=0", ("shards.target_bytes: expected a number of at least 1, got 0",)),
    ("compute.workers=many", ("compute.workers: expected 'auto' or a whole number, got 'many'",)),
    ("compute.workers=0", ("compute.workers: expected 'auto' or a number of at least 1, got 0",)),
    ("compute.batch_tokens=-1", ("compute.batch_tokens: expected 'auto' or a number of at",)),
    ("errors.max_ratio=2", ("errors.max_ratio: expected a number of at most 1, got 2",)),
    ("errors.mode=skip", ("errors.mode: expected 'null' or 'drop', got 'skip'",)),
    ("price.per_hour=cheap", ("price.per_hour: expected a number, got 'cheap'",)),
    ("model.task=emebd", ("model.task: expected 'embed' or 'classify', got 'emebd'",)),
    ("model.normalize=maybe", ("model.normalize: expected true or false, got 'maybe'",)),
    ("model.factory=build", ("model.factory: expected MODULE:FUNCTION, got 'build'",)),
    ("model.top_k=3", ("model.top_k is for task: classify",)),
    ("name=a/b", ("name: expected letters, digits, '_', '.' and '-' only, got 'a/b'",)),
    ("name=true", ("name: expected text, got True",)),
    ("output.columns=id", ("output.columns: expected a list, got 'id'",)),
    ("input.limit=0", ("input.limit: expected a number of at least 1, got 0",)),
    ("input.text=[]", ("input.text: expected text or a list that is not empty, got []",)),
    ("input.text=txt", ("input.text: expected a column", "got 'txt'; did you mean 'text'?")),
    (
        "input.text=zzzzzzzz",
        ("input.text: expected a column", "the input has: headword, topic,"),
    ),
    ("input.text=tag_count", ("input.text: expected a text column, got 'tag_count' of type",)),
    ("output.columns=[topic, txt]", ("output.columns: expected a column", "did you mean 'text'?")),
    ("output.columns=[text, text]", ("output.columns: expected each column once, got [",)),
    ("input.path=gone.parquet", ("input.path: expected a file, a folder or a glob", "gone")),
    ("input.path=gone/*.parquet", ("input.path: expected Parquet files", "found none at")),
    ("input.path=nowhere://b/x", ("input.path: expected a path, or a URL that fsspec opens",)),
    ('input.path="a\\0b"', ("input.path: expected a path on this machine, got 'a\\x00b'", "null")),
    ("input.path=~nobody-of-that-name/x", ("input.path: expected a path", "nobody-of-that-name")),
    ("output.path=nowhere://b/x", ("output.path: expected a path, or a URL that fsspec opens",)),
]

STORE_TESTS = "tests/system/test_object_store.py"

# Arguments, and what is said of them. {job} is a job file that is right.
PROMPT = [
    (("run", "{job}", "--limit", "0"), ("'--limit'", "greater than or equal to 1")),
    (("run", "{job}", "--limit", "many"), ("'--limit'", "valid integer")),
    (("run", "{job}", "--workers", "0"), ("'--workers'", "greater than or equal to 1")),
    (("run", "{job}", "--device", "tpu"), ("compute.device: expected 'auto', 'cpu' or", "'tpu'")),
    (("run", "{job}", "--device", ""), ("compute.device: expected", "got None")),
    (("run", "{job}", "--frehs"), ("No such option", "--frehs")),
    (("run", "{job}", "--set"), ("Option '--set' requires an argument",)),
    (("run",), ("Missing argument", "headrace run -h")),
    (("rnu", "{job}"), ("No such command 'rnu'", "Did you mean 'run'?")),
    (("run", "gone.yaml"), ("expected a job file at gone.yaml, got: No such file", "Check the")),
    (("plan", "."), ("expected a job file at ., got: Is a directory", "Check the path")),
    (("status", "gone"), ("gone: expected the output folder of a headrace run",)),
    (("status", "empty"), ("empty: expected the output folder of a headrace run, got no",)),
    (("verify", "empty"), ("empty: expected the output folder of a headrace run, got no",)),
    (("verify", "{job}"), ("job.yaml: expected the output folder of a headrace run, got no",)),
    (("report", "empty"), ("expected the report of a run at", "Has the run ended?")),
    (("status", "damaged"), ("damaged/_headrace/plan.json: expected a PlanHeader", "required")),
]
FOLDER_COMMANDS = ("status", "verify", "report")


@pytest.fixture
def job(tmp_path, tiny_model):
    return tiny_job(tmp_path, tiny_model)


@pytest.mark.parametrize(("text", "words"), [row[1:] for row in FILES], ids=[r[0] for r in FILES])
def test_a_job_file(tmp_path, text, words):
    (tmp_path / "job.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    for command in ("run", "plan"):
        check(tmp_path, (command, "job.yaml"), 2, words)


@pytest.mark.parametrize(("override", "words"), OVERRIDES, ids=[row[0] for row in OVERRIDES])
def test_a_value(tmp_path, job, override, words):
    check(tmp_path, ("run", job, "--no-prefect", "--set", override), 2, words)


@pytest.mark.parametrize(("args", "words"), PROMPT, ids=[" ".join(row[0]) for row in PROMPT])
def test_the_prompt(tmp_path, job, args, words):
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged/_headrace").mkdir(parents=True)
    (tmp_path / "damaged/_headrace/plan.json").write_text("{}")
    args = [arg.format(job=job) for arg in args]
    check(tmp_path, args, 1 if args[0] in FOLDER_COMMANDS else 2, words)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("run", "{job}", "--set", "shards.target_row=5"), 2, ("did you mean 'target_rows'?",)),
        (("run", "{job}", "--set", "input.text=txt"), 2, ("did you mean 'text'?",)),
        (("run", "{job}", "--limit", "0"), 2, ("Invalid value for '--limit'",)),
        (("status", "gone"), 1, ("expected the output folder of a headrace run",)),
    ],
    ids=["a key", "a column, with Prefect", "an option", "a folder"],
)
def test_each_class_in_a_process_of_its_own(tmp_path, cli, job, args, code, words):
    result = cli(*[arg.format(job=job) for arg in args], "--json")
    refused(result, code, *words)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "prefect").exists()


def test_debug_shows_the_traceback_of_a_mistake_on_every_command(tmp_path, job):
    change(job, name="a/b")
    for args in (("run", job), ("plan", job), ("status", "x"), ("verify", "x"), ("report", "x")):
        result = run_here(tmp_path, *args, "--debug")
        assert "Traceback (most recent call last)" in result.stderr
        assert "\nheadrace: " in result.stderr
    assert run_here(tmp_path, "doctor", "--debug").rc == 0


def test_an_error_that_nobody_expected(tmp_path, job, monkeypatch):
    from headrace.flows import api

    def burst(*_, **__):
        raise ZeroDivisionError("first line\nsecond line")

    monkeypatch.setattr(api, "plan", burst)
    check(
        tmp_path, ("plan", job), 1, ("unexpected error: ZeroDivisionError: first line", "--debug")
    )
    result = run_here(tmp_path, "plan", job, "--debug")
    assert 'raise ZeroDivisionError("first line' in result.stderr
    assert result.rc == 1


def test_the_version(cli):
    assert cli("--version").stdout == "headrace 0.1.0\n"


def test_what_a_model_prints_does_not_mix_with_the_result(tmp_path, cli):
    job = write_job(tmp_path, demo_rows(20), model=tiny(chatter="a model's own words"))
    run = cli.run(job)
    assert run.rc == 0, run.stderr
    assert run.json["rows"]["good"] == 20
    assert "a model's own words" in run.stderr


def test_the_table_in_the_docs_says_what_these_tests_check():
    section = (ROOT / "docs/inputs.md").read_text().partition("## Mistakes")[2]
    pieces = re.findall(r"^\| [^|]+ \| `([^|]+)` \| [^|]+ \|$", section, re.MULTILINE)
    assert len(pieces) > 40
    files = [*(ROOT / "tests/system").glob("test_mistakes*.py"), ROOT / STORE_TESTS]
    tests = "".join(file.read_text() for file in files)
    assert [piece for piece in pieces if piece not in tests] == []
