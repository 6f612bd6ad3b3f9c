import pytest
from pydantic import ValidationError

from headrace.schemas.steps import (
    BARE_STEPS,
    SETTINGS,
    Concat,
    FillNull,
    Python,
    Replace,
    Template,
    TruncateChars,
)

ALL = [
    "strip",
    "lower",
    "collapse_whitespace",
    {"truncate_chars": 2000},
    {"replace": {"find": "\\d+", "with": "0", "regex": True}},
    {"fill_null": "unknown"},
    {"template": "{title}: {text}"},
    {"concat": {"columns": ["title", "text"], "separator": ". "}},
    "drop_empty",
    {"python": "my_steps:clean"},
]


@pytest.fixture
def step(make_job):
    """Read one step as a job does."""

    def make(value):
        (found,) = make_job(preprocess=[value]).preprocess
        return found

    return make


@pytest.fixture
def refusal(step):
    def make(value):
        with pytest.raises(ValidationError) as caught:
            step(value)
        (fault,) = caught.value.errors()
        return fault["msg"].removeprefix("Value error, ")

    return make


def test_every_step_is_read(make_job):
    steps = make_job(preprocess=ALL).preprocess
    assert steps[:3] == ("strip", "lower", "collapse_whitespace")
    kinds = [type(found) for found in steps if not isinstance(found, str)]
    assert kinds == [TruncateChars, Replace, FillNull, Template, Concat, Python]
    assert {next(iter(each)) if isinstance(each, dict) else each for each in ALL} == {
        *BARE_STEPS,
        *SETTINGS,
    }


def test_steps_survive_plain_data_and_json(make_job):
    job = make_job(preprocess=ALL)
    assert type(job).model_validate_json(job.model_dump_json()) == job
    assert type(job).model_validate(job.model_dump()) == job
    assert job.model_dump(mode="json")["preprocess"] == ALL
    assert type(job)(**dict(job)) == job  # steps that are read already


def test_steps_are_frozen(step):
    with pytest.raises(ValidationError, match="frozen"):
        step({"truncate_chars": 5}).truncate_chars = 6


def test_replace_is_literal_and_the_separator_a_space_unless_said(step):
    assert not step({"replace": {"find": "(", "with": ""}}).replace.regex
    assert step({"concat": {"columns": ["a"]}}).concat.separator == " "


@pytest.mark.parametrize(
    ("template", "pieces"),
    [
        ("{a}", [("column", "a")]),
        ("{a}{b}", [("column", "a"), ("column", "b")]),
        ("x {a b} y", [("text", "x "), ("column", "a b"), ("text", " y")]),
        ("{{{a}}}", [("text", "{"), ("column", "a"), ("text", "}")]),
        ("{{a}} {a}", [*[("text", text) for text in ("{", "a", "}", " ")], ("column", "a")]),
        (
            "{a:>10} {b!r} {c.d[0]}",
            [
                ("column", "a:>10"),
                ("text", " "),
                ("column", "b!r"),
                ("text", " "),
                ("column", "c.d[0]"),
            ],
        ),
        ("ü\n{ü}\0", [("text", "ü\n"), ("column", "ü"), ("text", "\0")]),
    ],
)
def test_a_template_is_columns_and_texts(step, template, pieces):
    assert list(step({"template": template}).pieces) == pieces


@pytest.mark.parametrize("template", ["{a", "a}", "{a}}", "{}", "{a{b}}", "{{a}"])
def test_a_brace_without_its_other_half_is_refused(refusal, template):
    assert refusal({"template": template}).startswith("expected {COLUMN}, and {{ or }} for a brace")


@pytest.mark.parametrize("template", ["", "no column", "{{a}}"])
def test_a_template_without_a_column_is_refused(refusal, template):
    assert "expected a column's name in braces" in refusal({"template": template})


@pytest.mark.parametrize(
    ("find", "with_", "said"),
    [
        ("(", "x", "missing )"),
        ("(?=x)", "x", "invalid perl operator"),
        ("a", "\\1", "only has 0 parenthesized"),
        ("a", "\\", "not allowed at end"),
    ],
)
def test_a_pattern_is_checked_when_the_job_is_read(refusal, find, with_, said):
    message = refusal({"replace": {"find": find, "with": with_, "regex": True}})
    assert message.startswith("expected RE2's syntax in find and with, got: ")
    assert said in message


def test_a_literal_may_be_anything(step):
    assert step({"replace": {"find": "(", "with": "\\9"}}).replace.find == "("


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("strp", "unknown step 'strp'; did you mean 'strip'?"),
        ({"truncate_char": 5}, "unknown step 'truncate_char'; did you mean 'truncate_chars'?"),
        ("zzzzz", "unknown step 'zzzzz'; known here: strip, lower, collapse_whitespace"),
        ({7: 1}, "unknown step 7; known here: "),
        ("truncate_chars", "expected a setting, as in truncate_chars: …"),
        ({"strip": None}, "expected strip alone: it takes no setting"),
        ({"lower": True}, "expected lower alone: it takes no setting"),
        ({"replace": None, "find": "a"}, "got the keys ['replace', 'find']. Begin each step with"),
        ({}, "expected one step, such as strip or truncate_chars: 2000, got {}."),
        (None, "got None."),
        (["strip"], "got ['strip']."),
    ],
    ids=str,
)
def test_what_is_no_step_is_refused_in_plain_words(refusal, value, said):
    assert said in refusal(value)


@pytest.mark.parametrize(
    "value",
    [
        {"truncate_chars": 0},
        {"truncate_chars": "many"},
        {"replace": {"find": "", "with": "x"}},
        {"replace": {"find": "x"}},
        {"replace": {"find": "x", "with": "y", "regexp": True}},
        {"replace": {"find": "x", "with_": "y"}},
        {"replace": "x"},
        {"fill_null": None},
        {"fill_null": 0},
        {"concat": {"columns": []}},
        {"concat": ["a", "b"]},
        {"python": "no_colon"},
        {"python": "a:b c"},
    ],
    ids=str,
)
def test_a_bad_setting_is_refused(step, value):
    with pytest.raises(ValidationError):
        step(value)
