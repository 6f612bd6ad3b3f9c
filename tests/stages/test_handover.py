import contextlib
import threading

import numpy as np
import torch
from gpu_support import install

from headrace.stages.handover import own_stream, put, tensor_of
from headrace.stages.ragged import Ragged, Specials


def test_tokens_are_put_where_the_model_is():
    present = np.array([True, False])
    starts, counts = np.array([0, 2]), np.array([2, 0])
    ids = np.array([5, 6], np.int32)
    placed = put(Ragged(ids, starts, counts, present, 16, Specials((1,), (2, 3))), "cpu")
    assert placed.ids.dtype == torch.int32
    assert placed.ids.tolist() == [5, 6]
    assert placed.starts.tolist() == [0, 2]
    assert placed.counts.tolist() == [2, 0]
    assert placed.before.tolist() == [1]
    assert placed.behind.tolist() == [2, 3]
    assert {part.dtype for part in (placed.starts, placed.before, placed.behind)} == {torch.int64}


def test_tokens_that_are_there_already_stay_where_they_are():
    ids = torch.arange(3, dtype=torch.int32)
    numbers = np.zeros(1, np.int64)
    placed = put(Ragged(ids, numbers, numbers, np.array([True]), 16), "cpu")
    assert placed.ids is ids


def test_memory_is_seen_as_another_dtype_and_waited_for(monkeypatch):
    install(monkeypatch)
    import cupy

    waited = []
    stream = type("Stream", (), {"synchronize": lambda _: waited.append(True)})()
    monkeypatch.setattr(cupy.cuda.Stream, "ptds", stream)
    monkeypatch.setattr(cupy.cuda.Stream, "null", stream)
    data = np.frombuffer(np.array([1, 2, 70_000], np.int32).tobytes(), np.uint8)
    tensor = tensor_of(data, np.int32)
    assert tensor.tolist() == [1, 2, 70_000]
    assert waited == [True, True]


class Stream:
    """Stands in for torch's streams."""

    made = 0

    def __init__(self):
        type(self).made += 1
        self.waits = 0

    def synchronize(self):
        self.waits += 1


def test_each_thread_has_one_stream_and_waits_for_it(monkeypatch):
    """torch has 32, and would hand out the device thread's again."""
    used = []

    @contextlib.contextmanager
    def on(stream):
        used.append(stream)
        yield

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", on)

    def twice():
        for _ in range(2):
            with own_stream("cuda"):
                pass

    for _ in range(2):
        thread = threading.Thread(target=twice)
        thread.start()
        thread.join()
    assert Stream.made == 2
    assert used[0] is used[1] is not used[2]
    assert [stream.waits for stream in used] == [2] * 4


def test_on_a_cpu_there_is_no_stream():
    with own_stream("cpu"):
        pass
