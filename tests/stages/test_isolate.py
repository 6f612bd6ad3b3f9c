import functools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.errors import JobError, ShardError
from headrace.schemas.plan import Shape
from headrace.stages.batch import Batch, make_batches
from headrace.stages.faults import HOPELESS_ROWS
from headrace.stages.forward import BatchResult
from headrace.stages.isolate import NOT_FINITE, run_batches

SHAPES = (Shape(length=8, rows=(64, 32, 16, 8)), Shape(length=32, rows=(16, 8, 4, 2)))


class Bench:
    """A model that gives each row its own number, and what became of the rows."""

    def __init__(self, *, raises=(), nan=(), spoils=(), max_tokens=10**9, error=None):
        self.raises, self.nan, self.spoils = set(raises), set(nan), set(spoils)
        self.max_tokens, self.error = max_tokens, error or ValueError("x")
        self.ran, self.placed = [], {}

    def launch(self, batch):
        """Some faults show at once, as a CPU's do, some when the result is waited for."""
        self.ran.append(batch)
        if batch.rows.size % 2:
            return functools.partial(self.collect, batch)
        result = self.collect(batch)
        return lambda: result

    def collect(self, batch):
        rows = set(batch.rows.tolist())
        if batch.padded_tokens > self.max_tokens:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if rows & self.raises:
            raise self.error
        finite = np.array([row not in self.nan for row in batch.rows])
        if rows & self.spoils:
            finite[:] = False
        return BatchResult(batch.rows[:, None].astype(np.float32), None, finite)

    def place(self, rows, result):
        assert rows.size == result.values.shape[0] == result.finite.size
        assert result.finite.all()
        for row, value in zip(rows.tolist(), result.values[:, 0].tolist(), strict=True):
            assert row not in self.placed, "a row was placed twice"
            self.placed[row] = value

    def run(self, rows=1_000, length=5, shapes=SHAPES, depth=1):
        batches = make_batches(np.arange(rows), np.full(rows, length, np.int64), shapes)
        outcome = run_batches(batches, self.launch, self.place, depth)
        assert all(value == row for row, value in self.placed.items())
        assert outcome.good == len(self.placed)
        assert set(self.placed) | set(outcome.faults) == set(range(rows))
        assert outcome.batches == len(self.ran)
        assert outcome.padded_tokens == sum(batch.padded_tokens for batch in self.ran)
        assert sum(outcome.shapes.values()) == outcome.batches
        return outcome


def test_without_a_fault_every_batch_runs_once():
    bench = Bench()
    outcome = bench.run(rows=100)
    assert outcome.good == 100
    assert outcome.faults == {}
    assert outcome.shapes == {"64 x 8": 1, "32 x 8": 1, "8 x 8": 1}
    assert (outcome.oom_halvings, outcome.token_limit) == (0, None)


def test_one_raising_row_of_a_thousand_is_lost_alone():
    bench = Bench(raises={417})
    outcome = bench.run()
    assert outcome.faults == {417: "ValueError in forward"}
    assert len(bench.ran) < 16 + 2 * 7 + 2  # bisection, not one by one


def test_one_row_without_a_number_is_lost_alone_and_costs_one_batch_more():
    bench = Bench(nan={417})
    outcome = bench.run()
    assert outcome.faults == {417: NOT_FINITE}
    assert [batch.rows.tolist() for batch in bench.ran if batch.height == 1] == [[417]]
    assert outcome.batches == Bench().run().batches + 1


def test_a_row_that_spoils_its_whole_batch_is_lost_alone():
    assert Bench(spoils={417}).run().faults == {417: NOT_FINITE}


def test_faults_of_all_kinds_in_one_shard():
    outcome = Bench(raises={3, 4, 999}, nan={5, 64}, spoils={6, 500}).run()
    reasons = dict.fromkeys((3, 4, 999), "ValueError in forward")
    assert outcome.faults == reasons | dict.fromkeys((5, 6, 64, 500), NOT_FINITE)


@given(
    rows=st.integers(0, 90),
    raises=st.sets(st.integers(0, 89), max_size=4),
    nan=st.sets(st.integers(0, 89), max_size=4),
    spoils=st.sets(st.integers(0, 89), max_size=3),
    max_tokens=st.sampled_from([10**9, 256, 64, 8]),
)
def test_exactly_the_guilty_rows_are_lost(rows, raises, nan, spoils, max_tokens):
    outcome = Bench(raises=raises, nan=nan, spoils=spoils, max_tokens=max_tokens).run(rows)
    assert set(outcome.faults) == {row for row in raises | nan | spoils if row < rows}


def test_the_reason_holds_no_text_of_the_exception():
    outcome = Bench(raises={0}, error=KeyError("a secret of the row")).run(10)
    assert outcome.faults == {0: "KeyError in forward"}


def test_a_row_in_a_padded_batch_runs_alone_before_it_is_blamed():
    bench = Bench(raises={0})
    outcome = bench.run(rows=1)
    assert [(batch.height, batch.rows.size) for batch in bench.ran] == [(8, 1), (1, 1)]
    assert set(outcome.faults) == {0}


def test_a_padded_row_without_a_number_runs_alone_before_it_is_blamed():
    bench = Bench(nan={0})
    assert bench.run(rows=1).faults == {0: NOT_FINITE}
    assert bench.ran[-1].height == 1


def test_out_of_memory_halves_the_batch_and_is_remembered():
    bench = Bench(max_tokens=100)
    outcome = bench.run()
    assert outcome.faults == {}
    assert outcome.good == 1_000
    assert outcome.oom_halvings == 3  # 512, 256, 128 tokens; then the limit is known
    assert outcome.token_limit == 64
    failed = [batch.padded_tokens for batch in bench.ran if batch.padded_tokens > 100]
    assert failed == [512, 256, 128]


OOM = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]


@pytest.mark.parametrize("error", OOM, ids=lambda error: type(error).__name__)
def test_out_of_memory_has_several_faces(error):
    def launch(batch):
        if batch.height > 8:
            raise error
        return Bench().launch(batch)

    batch = Batch(np.arange(16), 16, 4)
    outcome = run_batches([batch], launch, lambda rows, result: None)
    assert (outcome.oom_halvings, outcome.token_limit, outcome.good) == (1, 32, 16)


def test_another_runtime_error_is_no_memory_fault():
    outcome = Bench(raises={3}, error=RuntimeError("shape mismatch")).run(16)
    assert (outcome.oom_halvings, outcome.token_limit) == (0, None)
    assert outcome.faults == {3: "RuntimeError in forward"}


@pytest.mark.parametrize("depth", [2, 3])
@given(
    rows=st.integers(1, 300),
    raises=st.sets(st.integers(0, 299), max_size=4),
    nan=st.sets(st.integers(0, 299), max_size=4),
    spoils=st.sets(st.integers(0, 299), max_size=2),
    max_tokens=st.sampled_from([10**9, 256, 64]),
)
def test_several_batches_under_way_find_the_same_rows(rows, raises, nan, spoils, max_tokens, depth):
    known = {"raises": raises, "nan": nan, "spoils": spoils, "max_tokens": max_tokens}
    one, more = Bench(**known), Bench(**known)
    assert one.run(rows).faults == more.run(rows, depth=depth).faults
    assert one.placed == more.placed


def test_so_many_batches_are_begun_before_the_first_is_waited_for():
    events = []

    def launch(batch):
        events.append("begin")

        def collect():
            events.append("end")
            return Bench().collect(batch)

        return collect

    batches = [Batch(np.array([row]), 1, 4) for row in range(4)]
    run_batches(batches, launch, lambda rows, result: None, depth=2)
    assert events == ["begin", "begin", "end", "begin", "end", "begin", "end", "end"]


def test_a_row_too_large_alone_is_a_fault_with_its_reason():
    bench = Bench(max_tokens=16)
    lengths = np.array([5] * 8 + [30] * 2, np.int64)
    outcome = run_batches(make_batches(np.arange(10), lengths, SHAPES), bench.launch, bench.place)
    assert outcome.faults == dict.fromkeys((8, 9), "OutOfMemoryError in forward")
    assert set(bench.placed) == set(range(8))


def test_the_token_limit_never_rises():
    small, large = Batch(np.arange(4), 4, 8), Batch(np.array([4]), 1, 64)
    bench = Bench(max_tokens=16)
    outcome = run_batches([small, large], bench.launch, bench.place)
    assert outcome.token_limit == 16


def test_so_many_guilty_rows_without_a_good_one_fail_the_shard():
    bench = Bench(raises=range(1_000))
    with pytest.raises(ShardError, match=r"first 64 all failed .*ValueError in forward"):
        bench.run()
    assert sum(batch.height == 1 for batch in bench.ran) == HOPELESS_ROWS


def test_one_good_row_proves_that_the_fault_is_in_the_rows():
    outcome = Bench(raises=set(range(100)) - {1}).run(100)
    assert len(outcome.faults) == 99


def test_fewer_guilty_rows_are_just_guilty_rows():
    outcome = Bench(raises=range(63)).run(63)
    assert len(outcome.faults) == 63


def test_a_fault_of_the_job_itself_passes_through():
    bench = Bench(raises={3}, error=JobError("wrong model"))
    with pytest.raises(JobError, match="wrong model"):
        bench.run()
    assert len(bench.ran) == 1


def test_an_interrupt_passes_through():
    with pytest.raises(KeyboardInterrupt):
        Bench(raises={3}, error=KeyboardInterrupt()).run()


def test_classes_and_scales_go_with_their_rows():
    placed = {}

    def launch(batch):
        classes = np.stack([batch.rows, batch.rows + 10], axis=1)
        values = np.ones((batch.rows.size, 2), np.float32)
        scales = batch.rows.astype(np.float32)
        return lambda: BatchResult(values, classes, batch.rows != 1, scales)

    def place(rows, result):
        placed.update(zip(rows.tolist(), result.classes.tolist(), strict=True))
        assert result.scales.tolist() == rows.tolist()

    outcome = run_batches([Batch(np.arange(3), 3, 4)], launch, place)
    assert placed == {0: [0, 10], 2: [2, 12]}
    assert set(outcome.faults) == {1}
