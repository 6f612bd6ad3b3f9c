import dataclasses

import numpy as np
import pyarrow as pa
import pytest
import torch

from headrace.schemas.errors import ShardError
from headrace.schemas.report import DeviceUse
from headrace.stages.batch import make_batches
from headrace.stages.compute import compute
from headrace.stages.handover import put
from headrace.stages.nvml import Reading
from headrace.stages.spans import Spans


@pytest.fixture
def computed(tiny_run):
    def make(texts):
        place = tiny_run().place
        return place, run(place, texts)

    return make


def run(place, texts):
    table = pa.table({"text": pa.array(texts, pa.string())})
    prepared = place.texts.prepare(table, [], Spans())
    batches = list(make_batches(prepared.rows, prepared.ragged.lengths, place.header.grid.shapes))
    return compute(put(prepared.ragged, "cpu"), batches, len(texts), place, "part")


def test_results_stand_at_their_rows(computed):
    texts = ["one two three four", None, "two", "one"]
    place, made = computed(texts)
    assert made.results.valid.tolist() == [True, False, True, True]
    module = place.forward.module
    for row in (0, 2, 3):
        np.testing.assert_allclose(made.results.values[row], module.vector(texts[row]), atol=1e-6)
    assert made.outcome.good == 3


def test_every_attempt_at_a_batch_has_a_latency_unless_it_raised(computed):
    _, made = computed(["one", "boom", "two", "three"])
    assert set(made.outcome.faults) == {1}
    assert 0 < len(made.latencies_ms) < made.outcome.batches


def test_spans_are_this_shard_s_own(computed):
    place, first = computed(["one"])
    second = run(place, ["two"])
    assert first.seconds is not second.seconds
    assert set(second.seconds) == {"forward_s", "post_s", "d2h_s"}


def test_the_device_s_use_is_told(computed):
    _, made = computed(["one", "two"])
    assert made.use.name
    assert 0.0 <= made.use.utilization <= 1.0
    assert made.use.peak_memory_bytes > 2**20
    assert made.use.energy_wh is None


def test_without_a_batch_there_is_nothing_to_tell(computed):
    _, made = computed([None, None])
    assert made.latencies_ms == []
    assert not made.results.valid.any()


class GaugeStandIn:
    """Stands in for NVML's gauge."""

    def __init__(self):
        self.calls = []

    def start(self):
        self.calls.append("start")

    def stop(self):
        self.calls.append("stop")
        return Reading(0.75, 2**30, 0.5, 300.0, "NVML lost its power")


@pytest.fixture
def on_gpu(tiny_run, monkeypatch):
    """A place whose device is measured as a GPU is."""
    for name, answer in (
        ("reset_peak_memory_stats", None),
        ("max_memory_allocated", 12_345),
        ("get_device_name", "NVIDIA H200"),
    ):
        monkeypatch.setattr(torch.cuda, name, lambda answer=answer: answer)
    return dataclasses.replace(tiny_run().place, gauge=GaugeStandIn())


def test_a_gpu_s_use_is_what_nvml_and_torch_tell(on_gpu):
    made = run(on_gpu, ["one", "two"])
    assert made.use == DeviceUse(
        name="NVIDIA H200",
        utilization=0.75,
        peak_memory_bytes=2**30,
        energy_wh=0.5,
        power_w=300.0,
        peak_allocated_bytes=12_345,
        note="NVML lost its power",
    )
    assert on_gpu.gauge.calls == ["start", "stop"]


def test_a_shard_that_fails_is_measured_no_longer(on_gpu):
    with pytest.raises(ShardError):
        run(on_gpu, ["boom"] * 64)
    assert on_gpu.gauge.calls == ["start", "stop"]


def test_a_budget_that_memory_taught_one_shard_is_that_of_the_next(computed):
    """The first shard meets the limit; no later one does, nor does the plan's budget return."""
    place, first = computed(["one two three"] * 4)
    assert (first.outcome.oom_halvings, place.budget.tokens) == (0, None)
    launch, tried = place.forward.launch, []

    def short_of_memory(ragged, batch):
        tried.append(batch.height * batch.length)
        if tried[-1] > 16:
            raise torch.OutOfMemoryError
        return launch(ragged, batch)

    place.forward.launch = short_of_memory
    second = run(place, ["one two three"] * 8)
    assert second.outcome.oom_halvings > 0
    assert second.results.valid.all()
    learnt = place.budget.tokens
    assert 0 < learnt <= 16
    tried.clear()
    third = run(place, ["one two three"] * 8)
    assert third.outcome.oom_halvings == 0
    assert third.results.valid.all()
    assert max(tried) <= 16
    assert place.budget.tokens == learnt
