"""What the Python functions do to a job before it runs."""

import pytest

from headrace.flows.api import with_limit
from headrace.flows.job_file import parse_job
from headrace.schemas.errors import JobError


@pytest.fixture
def job():
    """From store to store, with options whose values no dump of a job holds."""
    return parse_job(
        {
            "name": "job",
            "input": {"path": "s3://in", "text": "text", "storage_options": {"key": "${IN_KEY}"}},
            "model": {"path": "model", "task": "embed"},
            "output": {"path": "s3://out", "storage_options": {"key": "${OUT_KEY}"}},
        }
    )


def test_a_limit_keeps_everything_else_storage_options_too(job):
    limited = with_limit(job, 5)
    assert limited.input.limit == 5
    assert limited.input.storage_options == {"key": "${IN_KEY}"}
    assert limited.output.storage_options == {"key": "${OUT_KEY}"}
    back = limited.model_copy(update={"input": limited.input.model_copy(update={"limit": None})})
    assert back == job


def test_no_limit_is_the_job_itself(job):
    assert with_limit(job, None) is job


def test_a_limit_is_checked_as_in_a_job_file(job):
    with pytest.raises(JobError, match="limit"):
        with_limit(job, 0)
