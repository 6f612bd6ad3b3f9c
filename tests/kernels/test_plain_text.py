import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.plain_text.reference import plain_rows


def plain(rows, longest=None):
    edges = torch.tensor([0, *(len(row) for row in rows)], dtype=torch.int64).cumsum(0)
    data = torch.tensor(list(b"".join(rows)), dtype=torch.uint8)
    return plain_rows(data, edges, longest).tolist()


def by_hand(row, longest):
    if re.search(rb"[^\t\n\r -~]", row):
        return False
    return longest is None or all(len(word) <= longest for word in re.split(rb"[\t\n\r ]", row))


SOME = st.lists(st.sampled_from(b"ab \t\n\r\x00\x7f\x80\xff\xc3~!"), max_size=12).map(bytes)


@given(
    rows=st.lists(SOME | st.binary(max_size=9), max_size=8),
    longest=st.none() | st.integers(1, 5),
)
def test_it_judges_as_a_regular_expression_would(rows, longest):
    assert plain(rows, longest) == [by_hand(row, longest) for row in rows]


@pytest.mark.parametrize("byte", range(256))
def test_each_byte_is_judged(byte):
    expected = byte in {9, 10, 13} or 32 <= byte <= 126
    assert plain([b"a", bytes([byte]), b""]) == [True, expected, True]


def test_a_word_may_be_as_long_as_it_is_said():
    rows = [b"aaa", b"aaaa", b"a aaa\taaa", b"aaa aaaa", b"", b"   ", b"aaaa"]
    assert plain(rows, 3) == [True, False, True, False, True, True, False]


def test_there_may_be_no_row():
    assert plain([]) == []
    assert plain([], 3) == []


def test_empty_rows_before_a_guilty_one_are_innocent():
    assert plain([b"", b"", b"\xff", b"", b"\xff"]) == [True, True, False, True, False]
