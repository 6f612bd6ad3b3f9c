import numpy as np
import pytest
import torch

from headrace.schemas.plan import BatchSize, PackSize, Shape
from headrace.stages.grid import (
    batches_of,
    blank_batch,
    blank_tokens,
    full_batch,
    make_grid,
    pack_sizes,
    padding_share,
)
from headrace.stages.shapes import choose_grid

SHAPES = (
    Shape(length=4, rows=(16, 8, 4, 2)),
    Shape(length=10, rows=(6, 3, 1)),
    Shape(length=32, rows=(2, 1)),
)
PACKS = (PackSize(tokens=64, rows=16), PackSize(tokens=32, rows=8))
NONE = np.array([], np.int64)
LENGTHS = np.array([4, 4, 10, 10], np.int64)


def shaped(lengths=NONE, shard_rows=0, shapes=SHAPES):
    return make_grid(lengths, 64, shard_rows, shapes=shapes)


def packed(lengths=NONE, shard_rows=0):
    return make_grid(lengths, 64, shard_rows, packs=PACKS)


def test_the_grid_carries_what_the_sample_says():
    found = shaped(np.array([2, 4]), 16)
    assert (found.sample_rows, found.sample_tokens, found.batch_tokens) == (2, 6, 64)
    assert found.padding_share == 0.25


@pytest.mark.parametrize("make", [shaped, packed])
def test_padding_share_is_that_of_a_whole_shard(make):
    lengths = np.repeat(np.array([4, 10]), 16)
    batches = batches_of(make(), np.arange(32), lengths)
    expected = 1 - (16 * 4 + 16 * 10) / sum(batch.padded_tokens for batch in batches)
    assert padding_share(make(), LENGTHS, 32) == make(LENGTHS, 32).padding_share == expected


def test_padding_share_of_a_full_batch_is_none_and_of_half_a_batch_half():
    assert padding_share(shaped(), np.array([4]), 16) == 0.0
    assert padding_share(shaped(), np.array([2]), 16) == 0.5
    assert padding_share(packed(), np.array([4]), 16) == 0.0


@pytest.mark.parametrize("make", [shaped, packed])
def test_padding_share_of_nothing_is_nothing(make):
    assert padding_share(make(), NONE, 100) == 0.0
    assert padding_share(make(), LENGTHS, 0) == 0.0


def test_a_grid_of_the_sample_wastes_little_on_a_shard():
    rng = np.random.default_rng(1)
    lengths = np.minimum(rng.poisson(20, 5_000) + 2, 64).astype(np.int64)
    shapes = choose_grid(lengths, max_length=64, max_shapes=12, batch_tokens=1_024, multiple=1)
    bucketed = make_grid(lengths, 1_024, 5_000, shapes=shapes)
    packs = pack_sizes(lengths, max_length=64, batch_tokens=1_024)
    assert bucketed.padding_share < 0.06
    assert make_grid(lengths, 1_024, 5_000, packs=packs).padding_share < 0.02


def test_a_pack_has_room_for_half_as_many_rows_again_as_the_sample_says():
    sizes = pack_sizes(np.array([4, 12]), max_length=32, batch_tokens=1_024)
    assert sizes[0] == PackSize(tokens=1_024, rows=1_024 // 8 * 3 // 2 + 1)
    assert [size.tokens for size in sizes] == [1_024, 512, 256, 128]


def test_a_pack_takes_the_longest_row_whatever_the_budget():
    sizes = pack_sizes(NONE, max_length=5, batch_tokens=1)
    assert sizes[0] == PackSize(tokens=5, rows=5)
    assert sizes[-1] == PackSize(tokens=1, rows=1)
    assert len(set(sizes)) == len(sizes)


def test_every_size_is_listed_that_of_most_tokens_first():
    sizes = shaped().sizes
    assert sizes[0].tokens == sizes[1].tokens == 64
    assert [size.tokens for size in sizes] == sorted((s.tokens for s in sizes), reverse=True)
    assert len(sizes) == 4 + 3 + 2
    assert packed().sizes == PACKS


@pytest.mark.parametrize("size", [BatchSize(rows=6, length=10), *PACKS])
def test_a_full_batch_is_of_the_sample_s_rows_again_and_again(size):
    batch = full_batch(size, LENGTHS)
    assert batch.size == size
    assert batch.rows.tolist() == [at % 4 for at in range(batch.rows.size)]
    tokens = LENGTHS[batch.rows].sum()
    if isinstance(size, PackSize):
        assert size.tokens - 10 < tokens <= size.tokens
    else:
        assert batch.rows.size == size.rows


@pytest.mark.parametrize("size", [BatchSize(rows=3, length=4), PACKS[0]])
def test_a_blank_batch_is_one_token_and_padding(size):
    ids, second, *rest = blank_batch(size).lay_out(blank_tokens("cpu"), 9, torch.clone)
    assert ids.numel() == size.tokens
    assert ids.flatten().tolist() == [0] + [9] * (size.tokens - 1)
    if rest:
        edges, blocks = rest
        assert edges.tolist() == [0] + [1] * size.rows
        assert blocks[0].tolist() == [0, 0]
        assert (blocks[1:] == -1).all()
    else:
        assert second.sum() == 1
