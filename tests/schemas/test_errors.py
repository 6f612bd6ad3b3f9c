import pickle

import pytest

from headrace.schemas.errors import (
    DamagedError,
    ExitCode,
    HeadraceError,
    JobError,
    OtherRunError,
    OutputError,
    ShardError,
    did_you_mean,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (HeadraceError, 1),
        (JobError, 2),
        (OtherRunError, 5),
        (DamagedError, 1),
        (OutputError, 1),
        (ShardError, 3),
    ],
)
def test_each_error_has_its_exit_code(kind, code):
    assert issubclass(kind, HeadraceError)
    assert kind("text").exit_code == code


def test_errors_survive_the_way_from_a_worker():
    error = pickle.loads(pickle.dumps(ShardError("a text")))
    assert (type(error), str(error)) == (ShardError, "a text")


def test_exit_codes_are_those_of_the_manual():
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "UNEXPECTED": 1,
        "BAD_JOB": 2,
        "FAILED": 3,
        "OTHER_RUN": 5,
        "FAULTY": 6,
        "INTERRUPTED": 130,
    }


def test_a_message_may_end_with_the_nearest_name():
    assert did_you_mean("strp", ["lower", "strip"]) == "; did you mean 'strip'?"
    assert did_you_mean("zzz", ["lower", "strip"]) == ""
    assert did_you_mean("zzz", []) == ""
