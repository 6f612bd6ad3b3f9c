import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.plan import BatchSize, Shape
from headrace.stages.batch import Batch, make_batches

SHAPES = (
    Shape(length=4, rows=(16, 8, 4, 2)),
    Shape(length=10, rows=(6, 3, 1)),
    Shape(length=32, rows=(2, 1)),
)


def batches(lengths, rows=None, shapes=SHAPES):
    lengths = np.asarray(lengths, np.int64)
    rows = np.arange(lengths.size) if rows is None else np.asarray(rows, np.int64)
    return list(make_batches(rows, lengths, shapes))


@given(
    lengths=st.lists(st.integers(0, 32), max_size=120),
    picked=st.sets(st.integers(0, 119)),
)
def test_every_row_runs_once_in_a_shape_that_takes_it(lengths, picked):
    rows = sorted(row for row in picked if row < len(lengths))
    made = batches(lengths, rows)
    done = [int(row) for batch in made for row in batch.rows]
    assert sorted(done) == rows
    ladders = {shape.length: shape.rows for shape in SHAPES}
    for batch in made:
        assert batch.height in ladders[batch.length]
        assert 1 <= batch.rows.size <= batch.height
        assert all(lengths[row] <= batch.length for row in batch.rows)
    tokens = [lengths[row] for row in done]
    assert tokens == sorted(tokens, reverse=True)  # longest first


@given(st.lists(st.integers(0, 32), max_size=120))
def test_a_retry_makes_the_same_batches(lengths):
    first, second = batches(lengths), batches(lengths)
    assert [(b.rows.tolist(), b.shape) for b in first] == [
        (b.rows.tolist(), b.shape) for b in second
    ]


@given(st.lists(st.integers(0, 32), max_size=120))
def test_only_the_last_batch_holds_rows_of_padding(lengths):
    """What does not fill a batch is filled up with the next shorter rows."""
    assert all(batch.rows.size == batch.height for batch in batches(lengths)[:-1])


def test_rows_of_one_length_keep_their_order():
    made = batches([3, 3, 3, 3])
    assert [batch.rows.tolist() for batch in made] == [[0, 1, 2, 3]]
    many = [3, 2, 4] * 300
    order = [int(row) for batch in batches(many) for row in batch.rows]
    assert order == sorted(range(900), key=lambda row: -many[row])


def test_no_rows_make_no_batch():
    assert batches([]) == []
    assert batches([3, 4], rows=[]) == []


def test_one_row_takes_the_smallest_batch():
    (batch,) = batches([5])
    assert (batch.rows.tolist(), batch.height, batch.length) == ([0], 1, 10)
    (batch,) = batches([2])
    assert (batch.rows.tolist(), batch.height, batch.length) == ([0], 2, 4)


def test_a_tail_goes_down_the_ladder():
    assert [(b.height, b.rows.size) for b in batches([3] * 31)] == [
        (16, 16),
        (8, 8),
        (4, 4),
        (2, 2),
        (2, 1),
    ]


def test_a_length_at_the_edge_takes_the_shape_of_that_length():
    assert [batch.length for batch in batches([4])] == [4]
    assert [batch.length for batch in batches([5])] == [10]


def test_a_batch_names_and_counts_its_shape():
    batch = Batch(np.arange(3), 4, 16)
    assert batch.shape == "4 x 16"
    assert batch.padded_tokens == 64


def test_some_of_a_batch_s_rows_are_a_smaller_batch():
    part = Batch(np.array([7, 3, 9]), 4, 16).take(np.array([2, 0]))
    assert part.rows.tolist() == [9, 7]
    assert part.size == BatchSize(rows=2, length=16)
