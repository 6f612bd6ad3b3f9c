import time

import pytest

from headrace.stages.spans import Spans


def test_time_is_added_by_name():
    spans = Spans()
    for _ in range(2):
        with spans("read_s"):
            time.sleep(0.01)
    with spans("write_s"):
        pass
    assert 0.02 <= spans.seconds["read_s"] < 5
    assert spans.seconds["write_s"] < 0.01


def test_a_block_that_fails_is_measured_too():
    spans = Spans()

    def fail():
        with spans("read_s"):
            time.sleep(0.01)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert spans.seconds["read_s"] >= 0.01
