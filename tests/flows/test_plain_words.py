import pytest

from headrace.flows.plain_words import expected


@pytest.mark.parametrize(
    ("kind", "context", "words"),
    [
        ("int_parsing", {}, "a whole number"),
        ("bool_type", {}, "true or false"),
        ("model_type", {"class_name": "ShardSpec"}, "a mapping"),
        ("greater_than_equal", {"ge": 1}, "a number of at least 1"),
        ("less_than_equal", {"le": 0.5}, "a number of at most 0.5"),
        ("literal_error", {"expected": "'a' or 'b'"}, "'a' or 'b'"),
        ("string_pattern_mismatch", {"pattern": r"^[\w.]+:[\w.]+$"}, "MODULE:FUNCTION"),
        ("string_pattern_mismatch", {"pattern": "^x$"}, "text that matches ^x$"),
    ],
)
def test_a_fault_in_plain_words(kind, context, words):
    assert expected(kind, "Input should be so and so", context) == words


def test_where_there_are_no_plainer_words_pydantic_s_are_kept():
    assert expected("date_type", "Input should be a valid date", {}) == "a valid date"


def test_the_patterns_are_those_of_the_job():
    from headrace.flows.plain_words import PATTERNS
    from headrace.schemas.job import Job, ModelSpec

    fields = (Job.model_fields["name"], ModelSpec.model_fields["factory"])
    entries = [entry for field in fields for entry in field.metadata]
    found = {entry.pattern for entry in entries if getattr(entry, "pattern", None)}
    assert "^[\\w.-]+$" in found
    assert found <= set(PATTERNS)
