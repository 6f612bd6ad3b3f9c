import pytest


@pytest.mark.parametrize(
    ("changes", "passed", "read"),
    [
        ({}, ["id", "text"], ["id", "text"]),
        ({"output__columns": ["id"]}, ["id"], ["id", "text"]),
        ({"output__columns": ["text", "id"]}, ["text", "id"], ["text", "id"]),
        ({"output__columns": []}, [], ["text"]),
        ({"input__text": ["text", "text"]}, ["id", "text"], ["id", "text"]),
    ],
    ids=str,
)
def test_columns_are_kept_as_the_job_says_and_each_is_read_once(tiny_run, changes, passed, read):
    place = tiny_run(**changes).place
    assert place.passed_columns == passed
    assert place.read_columns == read
