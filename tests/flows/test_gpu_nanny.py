import os

import pytest

from headrace.flows.gpu_nanny import InOrder


class Plugin:
    def __init__(self, name, seen, error=None):
        self.name, self.seen, self.error = name, seen, error

    def setup(self, worker):
        self.seen.append((self.name, worker))
        if self.error is not None:
            raise self.error


def test_plugins_are_set_up_one_after_the_other():
    seen = []
    InOrder([Plugin("one", seen), Plugin("two", seen)]).setup("worker")
    assert seen == [("one", "worker"), ("two", "worker")]


def test_a_plugin_that_fails_is_said_and_stops_the_next(capfd):
    seen = []
    plugins = [Plugin("one", seen, MemoryError("std::bad_alloc")), Plugin("two", seen)]
    with pytest.raises(MemoryError):
        InOrder(plugins).setup("worker")
    assert [name for name, _ in seen] == ["one"]
    assert "std::bad_alloc" in capfd.readouterr().err


def test_importing_it_sets_nothing():
    assert "RAPIDS_NO_INITIALIZE" not in os.environ
