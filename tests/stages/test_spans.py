import threading
import time

import nvtx
import pytest

from headrace.stages import spans as spans_module
from headrace.stages.spans import NVTX_DOMAIN, Spans


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


class DomainStandIn:
    """An NVTX domain that writes down what a profiler would see, thread by thread."""

    def __init__(self):
        self.seen, self.open = [], threading.local()

    def get_event_attributes(self, message):
        return message

    def push_range(self, attributes):
        stack = self.open.__dict__.setdefault("stack", [])
        stack.append(attributes)
        self.seen.append("/".join(stack))

    def pop_range(self):
        self.open.stack.pop()


@pytest.fixture
def domain(monkeypatch):
    stand_in, asked = DomainStandIn(), []
    monkeypatch.setattr(nvtx, "get_domain", lambda name: asked.append(name) or stand_in)
    spans_module._domain.cache_clear()
    spans_module._label.cache_clear()
    yield stand_in
    assert asked == [NVTX_DOMAIN]
    spans_module._domain.cache_clear()
    spans_module._label.cache_clear()


def test_a_profiler_sees_the_spans_under_their_names(domain):
    spans = Spans()
    for _ in range(2):
        with spans("read_s"), spans("inner"):
            pass
    assert domain.seen == ["read", "read/inner"] * 2
    assert domain.open.stack == []
    assert set(spans.seconds) == {"read_s", "inner"}


def test_a_range_ends_with_a_block_that_fails(domain):
    with pytest.raises(ZeroDivisionError), Spans()("read_s"):
        raise ZeroDivisionError
    assert domain.open.stack == []


def test_threads_have_ranges_of_their_own(domain):
    meet = threading.Barrier(2, timeout=10)

    def work(name):
        with Spans()(name):
            meet.wait()
        assert domain.open.stack == []

    threads = [threading.Thread(target=work, args=(name,)) for name in ("read_s", "write_s")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(domain.seen) == ["read", "write"]


def test_a_span_costs_microseconds():
    spans = Spans()
    start = time.perf_counter()
    for _ in range(1_000):
        with spans("read_s"):
            pass
    assert time.perf_counter() - start < 0.1
