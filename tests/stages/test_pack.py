import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.plan import PackSize
from headrace.stages.handover import put
from headrace.stages.pack import Pack, exact_pack, make_packs
from headrace.stages.ragged import Ragged, Specials

SIZES = tuple(PackSize(tokens=64 // part, rows=16 // part) for part in (1, 2, 4, 8))


def packs(lengths, rows=None, sizes=SIZES):
    lengths = np.asarray(lengths, np.int64)
    rows = np.arange(lengths.size) if rows is None else np.asarray(rows, np.int64)
    return list(make_packs(rows, lengths, sizes))


@given(
    lengths=st.lists(st.integers(0, 64), max_size=120),
    picked=st.sets(st.integers(0, 119)),
)
def test_every_row_runs_once_in_a_pack_that_holds_it(lengths, picked):
    rows = sorted(row for row in picked if row < len(lengths))
    made = packs(lengths, rows)
    assert sorted(int(row) for pack in made for row in pack.rows) == rows
    for pack in made:
        assert pack.size in SIZES
        assert pack.counts.tolist() == [lengths[row] for row in pack.rows]
        assert 1 <= pack.rows.size <= pack.height
        assert pack.counts.sum() <= pack.padded_tokens
    assert all(pack.size == SIZES[0] for pack in made[:-1])


def test_the_last_pack_takes_the_smallest_size_that_holds_it():
    assert [pack.size for pack in packs([64, 8])] == [SIZES[0], SIZES[3]]
    assert [pack.size for pack in packs([64, 9])] == [SIZES[0], SIZES[2]]
    assert [pack.size for pack in packs([64, 1, 1, 1])] == [SIZES[0], SIZES[2]]  # three rows
    assert packs([]) == []


def test_packs_are_as_mixed_as_the_shard():
    """So that each has about as many rows, and few tokens at its end without one."""
    random = np.random.default_rng(3)
    lengths = np.minimum(random.geometric(0.05, 20_000) + 2, 256)
    sizes = (PackSize(tokens=8_192, rows=8_192),)
    made = packs(lengths, sizes=sizes)
    rows = np.array([pack.rows.size for pack in made[:-1]])
    assert rows.max() < 1.2 * rows.min()
    assert 1 - lengths.sum() / (len(made) * 8_192) < 0.02


def test_a_row_above_every_pack_is_a_fault_of_ours():
    with pytest.raises(AssertionError, match="a row above the largest pack"):
        packs([65])


def test_a_pack_names_and_counts_its_size():
    pack = Pack(np.arange(2), np.array([3, 5]), SIZES[1])
    assert (pack.shape, pack.padded_tokens, pack.height) == ("32 tokens", 32, 8)


def test_some_of_a_pack_s_rows_take_only_the_room_they_need():
    part = Pack(np.array([7, 3, 9]), np.array([4, 2, 1]), SIZES[0]).take(np.array([2, 0]))
    assert (part.rows.tolist(), part.counts.tolist()) == ([9, 7], [1, 4])
    assert part.size == PackSize(tokens=5, rows=2)
    assert exact_pack(np.array([1]), np.array([0])).size == PackSize(tokens=1, rows=1)


def test_a_pack_is_laid_out_with_edges_and_blocks_of_queries():
    tokens = Ragged(
        np.array([10, 20, 21, 22, 30], np.int32),
        np.array([0, 1, 4]),
        np.array([1, 3, 1]),
        np.ones(3, np.bool_),
        4,
        Specials((2,), (3,)),
    )
    pack = Pack(np.array([1, 0]), tokens.lengths[[1, 0]], PackSize(tokens=70, rows=3))
    ids, places, edges, blocks = pack.lay_out(put(tokens, "cpu"), 9, torch.clone)
    assert ids[:8].tolist() == [2, 20, 21, 3, 2, 10, 3, 9]  # the first row is cut to four
    assert set(ids[8:].tolist()) == {9}
    assert places[:8].tolist() == [0, 1, 2, 3, 0, 1, 2, 0]
    assert edges.tolist() == [0, 4, 7, 7]
    assert blocks.tolist() == [[0, 0], [1, 0], [-1, -1], [-1, -1]]
    assert {tensor.dtype for tensor in (ids, places, edges, blocks)} == {torch.int32}
