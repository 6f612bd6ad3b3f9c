from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.stages.shapes import MAX_DISTINCT, choose_grid


def grid(lengths, *, max_length=64, max_shapes=4, batch_tokens=256, multiple=1):
    return choose_grid(
        np.asarray(lengths, np.int64),
        max_length=max_length,
        max_shapes=max_shapes,
        batch_tokens=batch_tokens,
        multiple=multiple,
    )


def padded(lengths, chosen):
    """Tokens when each row takes the shortest length that it fits into."""
    return sum(min(length for length in chosen if length >= row) for row in lengths)


def rounded(lengths, multiple, max_length):
    return [min(-(-max(row, 1) // multiple) * multiple, max_length) for row in lengths]


def best_by_force(lengths, *, max_length, max_shapes, multiple):
    """Try every grid of at most `max_shapes` lengths that takes a row of `max_length`."""
    candidates = sorted(set(rounded(lengths, multiple, max_length)) - {max_length})
    return min(
        padded(lengths, {*some, max_length})
        for size in range(min(max_shapes, len(candidates) + 1))
        for some in combinations(candidates, size)
    )


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    max_shapes=st.integers(1, 5),
    multiple=st.sampled_from([1, 4, 8]),
)
def test_the_grid_pads_as_little_as_the_best_of_all_grids(lengths, max_shapes, multiple):
    limits = {"max_length": 42, "max_shapes": max_shapes, "multiple": multiple}
    shapes = grid(lengths, **limits)
    chosen = [shape.length for shape in shapes]
    assert padded(lengths, chosen) == best_by_force(lengths, **limits)


@given(lengths=st.lists(st.integers(1, 24), min_size=1, max_size=30), max_shapes=st.integers(1, 5))
def test_the_same_when_rows_are_as_long_as_they_may_be(lengths, max_shapes):
    lengths = [*lengths, 24]
    limits = {"max_length": 24, "max_shapes": max_shapes, "multiple": 1}
    chosen = [shape.length for shape in grid(lengths, **limits)]
    assert padded(lengths, chosen) == best_by_force(lengths, **limits)


def test_a_rare_long_row_does_not_take_the_short_rows_shape():
    """Two shapes: one must take the longest row that may come, so it can take the long one too."""
    chosen = [shape.length for shape in grid([5] * 100 + [60], max_length=64, max_shapes=2)]
    assert chosen == [5, 64]


@given(
    lengths=st.lists(st.integers(0, 99), max_size=60),
    max_length=st.integers(1, 99),
    max_shapes=st.integers(1, 8),
    batch_tokens=st.integers(1, 2_000),
    multiple=st.sampled_from([1, 8, 16]),
)
def test_the_grid_keeps_its_promises(lengths, max_length, max_shapes, batch_tokens, multiple):
    shapes = grid(
        lengths,
        max_length=max_length,
        max_shapes=max_shapes,
        batch_tokens=batch_tokens,
        multiple=multiple,
    )
    chosen = [shape.length for shape in shapes]
    assert 1 <= len(chosen) <= max_shapes
    assert chosen == sorted(set(chosen))
    assert chosen[-1] == max_length
    assert all(length % multiple == 0 for length in chosen[:-1])
    for shape in shapes:
        assert list(shape.rows) == sorted(set(shape.rows), reverse=True)
        assert shape.rows[-1] >= 1
        assert shape.rows[0] == 1 or shape.rows[0] * shape.length <= batch_tokens
        assert (shape.rows[0] + 1) * shape.length > batch_tokens


def test_the_ladder_holds_a_full_batch_and_its_half_quarter_and_eighth():
    (shape,) = grid([], max_length=16, batch_tokens=16 * 64)
    assert shape.rows == (64, 32, 16, 8)
    (shape,) = grid([], max_length=16, batch_tokens=16 * 3)
    assert shape.rows == (3, 1)
    (shape,) = grid([], max_length=16, batch_tokens=1)
    assert shape.rows == (1,)


def test_without_a_sample_there_is_one_shape():
    assert [shape.length for shape in grid([], max_length=77)] == [77]


def test_few_lengths_need_few_shapes():
    assert [shape.length for shape in grid([3, 3, 9, 9], max_shapes=32)] == [3, 9, 64]


def test_rows_without_a_token_fit_the_shortest_shape():
    assert grid([0, 0, 0], max_shapes=4, multiple=8)[0].length == 8


@pytest.mark.parametrize("max_shapes", [4, 12])
def test_thousands_of_lengths_still_give_a_near_best_grid(max_shapes):
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(6.5, 0.8, 20_000).astype(np.int64) + 1, 8_192)
    assert np.unique(lengths).size > MAX_DISTINCT

    def waste(chosen):
        chosen = np.asarray(chosen)
        assert chosen.size <= max_shapes
        return chosen[np.searchsorted(chosen, lengths)].sum() - lengths.sum()

    limits = {"max_length": 8_192, "max_shapes": max_shapes}
    mine = waste([shape.length for shape in grid(lengths, **limits)])
    # Multiples of 64 are few enough to be searched exactly.
    coarse = waste([shape.length for shape in grid(lengths, multiple=64, **limits)])
    # Quantiles are what one would write without dynamic programming.
    points = np.quantile(lengths, np.linspace(0, 1, max_shapes + 1)[1:-1]).astype(np.int64)
    assert mine < 1.01 * coarse
    assert mine < 0.95 * waste([*np.unique(points), 8_192])
