import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.stages.ragged import Ragged, RowTokens, Specials, join, ragged_of
from headrace.stages.tokenize import Tokens


def ints(values):
    return np.array(values, np.int64)


def test_lengths_count_special_tokens_and_are_cut():
    present = np.array([True, True, False, True])
    ragged = Ragged(
        np.zeros(20, np.int32),
        ints([0, 2, 0, 2]),
        ints([2, 0, 0, 18]),
        present,
        8,
        Specials((1,), (2,)),
    )
    assert ragged.lengths.tolist() == [4, 2, 0, 8]


def test_tokens_that_hold_their_special_ones_get_no_others():
    tokens = Tokens(np.arange(5, dtype=np.int32), ints([0, 3, 3, 5]))
    ragged = ragged_of(tokens, np.array([True, False, True]), 16)
    assert ragged.lengths.tolist() == [3, 0, 2]
    assert ragged.starts.tolist() == [0, 3, 3]
    assert ragged.specials.count == 0


def test_no_part_is_a_shard_without_a_text():
    ragged = join([], 3, 16, Specials((1,)))
    assert ragged.ids.dtype == torch.int32
    assert ragged.lengths.tolist() == [0, 0, 0]


@given(st.lists(st.none() | st.lists(st.integers(0, 9), max_size=5), max_size=12), st.data())
def test_each_row_finds_its_own_tokens_whatever_part_they_came_in(rows, data):
    order = data.draw(
        st.permutations([row for row, tokens in enumerate(rows) if tokens is not None])
    )
    cut = data.draw(st.integers(0, len(order)))
    parts = [
        RowTokens(
            ints(some),
            torch.tensor([token for row in some for token in rows[row]], dtype=torch.int32),
            ints([len(rows[row]) for row in some]),
        )
        for some in (order[:cut], order[cut:])
    ]
    ragged = join(parts, len(rows), 16, Specials())
    assert ragged.present.tolist() == [tokens is not None for tokens in rows]
    for row, tokens in enumerate(rows):
        if tokens is not None:
            start = ragged.starts[row]
            assert ragged.ids[start : start + ragged.counts[row]].tolist() == tokens
