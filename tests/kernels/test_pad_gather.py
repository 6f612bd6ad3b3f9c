import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.pad_gather.reference import pad_gather


def whole(values):
    return torch.tensor(values, dtype=torch.int64)


def gather(rows, chosen, length, pad_id, before=(), behind=()):
    ids = torch.tensor([token for row in rows for token in row], dtype=torch.int32)
    counts = whole([len(row) for row in rows])
    starts = counts.cumsum(0) - counts
    chosen, before, behind = whole(chosen), whole(before), whole(behind)
    return pad_gather(ids, starts, counts, chosen, length, pad_id, before, behind)


def by_hand(rows, chosen, length, pad_id, before=(), behind=()):
    room = length - len(before) - len(behind)
    picked = [[] if at < 0 else [*before, *rows[at][:room], *behind] for at in chosen]
    ids = [row + [pad_id] * (length - len(row)) for row in picked]
    mask = [[1] * len(row) + [0] * (length - len(row)) for row in picked]
    return ids, mask


ROWS = st.lists(st.lists(st.integers(1, 2**31 - 1), max_size=9), min_size=1, max_size=7)
SPECIALS = st.lists(st.integers(0, 9), max_size=2)


@given(
    rows=ROWS,
    room=st.integers(1, 11),
    pad_id=st.integers(0, 5),
    before=SPECIALS,
    behind=SPECIALS,
    data=st.data(),
)
def test_it_lays_rows_out_as_a_loop_would(rows, room, pad_id, before, behind, data):
    chosen = data.draw(st.lists(st.integers(-1, len(rows) - 1), min_size=1, max_size=9))
    given_ = (rows, chosen, room + len(before) + len(behind), pad_id, before, behind)
    ids, mask = gather(*given_)
    assert ids.dtype == mask.dtype == torch.int64
    assert (ids.tolist(), mask.tolist()) == by_hand(*given_)


@pytest.mark.parametrize("rows", [[[]], [[], [], []]])
def test_rows_without_a_token_are_all_padding(rows):
    ids, mask = gather(rows, [-1, len(rows) - 1], 3, 7)
    assert ids.tolist() == [[7] * 3] * 2
    assert mask.tolist() == [[0] * 3] * 2


def test_an_empty_row_has_its_special_tokens():
    ids, mask = gather([[]], [0, -1], 4, 9, before=[1], behind=[2])
    assert ids.tolist() == [[1, 2, 9, 9], [9] * 4]
    assert mask.tolist() == [[1, 1, 0, 0], [0] * 4]


def test_a_longer_row_is_cut_and_keeps_its_last_special_tokens():
    ids, mask = gather([[1, 2, 3, 4]], [0], 3, 0)
    assert ids.tolist() == [[1, 2, 3]]
    assert mask.tolist() == [[1, 1, 1]]
    ids, mask = gather([[1, 2, 3, 4]], [0], 4, 0, before=[7], behind=[8, 9])
    assert ids.tolist() == [[7, 1, 8, 9]]


def test_rows_may_lie_in_any_order():
    ids_t = torch.tensor([5, 6, 7, 8], dtype=torch.int32)
    none = whole([])
    ids, _ = pad_gather(ids_t, whole([3, 0]), whole([1, 3]), whole([0, 1]), 3, 0, none, none)
    assert ids.tolist() == [[8, 0, 0], [5, 6, 7]]


def test_a_token_that_equals_the_padding_is_still_a_token():
    ids, mask = gather([[0, 0]], [0], 3, 0)
    assert ids.tolist() == [[0, 0, 0]]
    assert mask.tolist() == [[1, 1, 0]]
