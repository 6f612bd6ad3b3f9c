import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.pad_gather.reference import pad_gather


def ragged(rows):
    ids = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
    offsets = torch.tensor([0, *(len(row) for row in rows)], dtype=torch.int64).cumsum(0)
    return ids, offsets


def by_hand(rows, chosen, length, pad_id):
    picked = [[] if at < 0 else rows[at][:length] for at in chosen]
    ids = [row + [pad_id] * (length - len(row)) for row in picked]
    mask = [[1] * len(row) + [0] * (length - len(row)) for row in picked]
    return ids, mask


ROWS = st.lists(st.lists(st.integers(1, 2**31 - 1), max_size=9), min_size=1, max_size=7)


@given(rows=ROWS, length=st.integers(1, 11), pad_id=st.integers(0, 5), data=st.data())
def test_it_lays_rows_out_as_a_loop_would(rows, length, pad_id, data):
    chosen = data.draw(st.lists(st.integers(-1, len(rows) - 1), min_size=1, max_size=9))
    ids, mask = pad_gather(*ragged(rows), torch.tensor(chosen), length, pad_id)
    assert ids.dtype == mask.dtype == torch.int64
    assert (ids.tolist(), mask.tolist()) == by_hand(rows, chosen, length, pad_id)


@pytest.mark.parametrize("rows", [[[]], [[], [], []]])
def test_rows_without_a_token_are_all_padding(rows):
    chosen = torch.tensor([-1, len(rows) - 1])
    ids, mask = pad_gather(*ragged(rows), chosen, 3, 7)
    assert ids.tolist() == [[7] * 3] * 2
    assert mask.tolist() == [[0] * 3] * 2


def test_a_longer_row_is_cut():
    ids, mask = pad_gather(*ragged([[1, 2, 3, 4]]), torch.tensor([0]), 3, 0)
    assert ids.tolist() == [[1, 2, 3]]
    assert mask.tolist() == [[1, 1, 1]]


def test_a_token_that_equals_the_padding_is_still_a_token():
    ids, mask = pad_gather(*ragged([[0, 0]]), torch.tensor([0]), 3, 0)
    assert ids.tolist() == [[0, 0, 0]]
    assert mask.tolist() == [[1, 1, 0]]
