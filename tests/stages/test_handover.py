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


def test_on_a_cpu_there_is_no_stream():
    with own_stream("cpu"):
        pass
