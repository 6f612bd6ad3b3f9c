import threading
import time

import pytest

from headrace.stages.stall import StallWatch


@pytest.fixture
def watched():
    """A watch of a fifth of a second, and what it said at the end."""
    said, ended = [], threading.Event()

    def end(text):
        said.append(text)
        ended.set()

    watch = StallWatch(0.2, end)
    yield watch, said, ended
    watch.close()


def test_a_batch_that_does_not_come_back_ends_the_process_and_is_named(watched):
    watch, said, ended = watched
    watch.step("part-7")
    assert ended.wait(20)
    assert "part-7" in said[0]
    assert "compute.stall_timeout_s 0.2 s" in said[0]


def test_batches_that_come_back_and_a_device_at_rest_do_not(watched):
    watch, said, _ = watched
    for _ in range(8):
        watch.step("part-7")
        time.sleep(0.05)
    watch.rest()
    time.sleep(0.5)
    assert said == []
