import numpy as np
import pyarrow as pa
import pytest

from headrace.stages.batch import make_batches
from headrace.stages.compute import compute
from headrace.stages.tokenize import tokenize


@pytest.fixture
def computed(tiny_run):
    def make(texts):
        place = tiny_run().place
        tokens = tokenize(pa.array(texts, pa.large_string()), place.tokenizer, lowercase=False)
        rows = np.array([row for row, text in enumerate(texts) if text is not None], np.int64)
        batches = list(make_batches(rows, tokens.lengths, place.header.grid.shapes))
        return place, compute(tokens, batches, len(texts), place)

    return make


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
    tokens = tokenize(pa.array(["two"], pa.large_string()), place.tokenizer, lowercase=False)
    batches = list(make_batches(np.array([0]), tokens.lengths, place.header.grid.shapes))
    second = compute(tokens, batches, 1, place)
    assert first.seconds is not second.seconds
    assert set(second.seconds) == {"h2d_s", "forward_s", "post_s", "d2h_s"}


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
