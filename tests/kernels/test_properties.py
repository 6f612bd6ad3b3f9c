"""What holds whatever the numbers are, by the kernels in Triton's interpreter."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.kernels.pool_normalize.launch import pool_normalize
from headrace.kernels.softmax_topk.launch import softmax_topk
from headrace.kernels.varlen_attention.launch import most_blocks, query_blocks, varlen_attention

FEW = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
COUNTS_OF_ROWS = st.lists(st.integers(1, 70), min_size=2, max_size=4)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def edges_of(counts):
    return torch.tensor([0, *np.cumsum(counts)], dtype=torch.int32)


def tokens_of(counts, order):
    """Where the tokens of rows stand that are put in another order."""
    starts = np.cumsum(counts) - counts
    return torch.from_numpy(np.concatenate([np.arange(counts[r]) + starts[r] for r in order]))


@FEW
@given(counts=COUNTS_OF_ROWS, pooling=st.sampled_from(["mean", "cls", "last", "max"]))
def test_rows_in_another_order_have_the_same_unit_vectors(kernels, counts, pooling):
    counts = np.array(counts)
    hidden, edges = random(int(counts.sum()), 24), edges_of(counts)
    order = np.random.default_rng(0).permutation(counts.size)
    moved, moved_edges = hidden[tokens_of(counts, order)], edges_of(counts[order])
    plain, permuted = (
        pool_normalize(states, at[:-1], at[1:], pooling, 24, normalize=True).values
        for states, at in ((hidden, edges), (moved, moved_edges))
    )
    assert torch.equal(permuted, plain[order])
    torch.testing.assert_close(plain.norm(dim=1), torch.ones(counts.size), atol=1e-6, rtol=0)
    assert kernels["pool_normalize", "reference"] == 0


@FEW
@given(counts=COUNTS_OF_ROWS)
def test_rows_in_another_order_attend_as_before(kernels, counts):
    counts = np.array(counts)
    qkv = random(int(counts.sum()), 3, 1, 32)
    order = np.random.default_rng(0).permutation(counts.size)
    at = tokens_of(counts, order)
    most = most_blocks(int(counts.sum()), counts.size)
    plain, permuted = (
        varlen_attention(states, edges_of(each), torch.from_numpy(query_blocks(each, most)))
        for states, each in ((qkv, counts), (qkv[at].contiguous(), counts[order]))
    )
    assert torch.equal(permuted, plain[at])
    assert kernels["varlen_attention", "reference"] == 0


@FEW
@given(rows=st.integers(1, 5), classes=st.integers(1, 32))
def test_probabilities_sum_to_one_whatever_the_order_of_the_rows(kernels, rows, classes):
    logits = random(rows, classes) * 20
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(1))
    values, best, finite = softmax_topk(logits, classes, activation="softmax")
    torch.testing.assert_close(values.sum(1), torch.ones(rows), atol=1e-5, rtol=0)
    assert best.sort(dim=1).values.tolist() == [list(range(classes))] * rows
    assert finite.all()
    moved = softmax_topk(logits[order], classes, activation="softmax")
    assert torch.equal(moved[0], values[order])
    assert torch.equal(moved[1], best[order])
    assert kernels["softmax_topk", "reference"] == 0


@pytest.mark.parametrize("classes", [2, 33])
def test_a_logit_that_all_rows_share_changes_no_probability(kernels, classes):
    logits = random(4, classes)
    plain = softmax_topk(logits, 1, activation="softmax")
    shifted = softmax_topk(logits + 3.0, 1, activation="softmax")
    torch.testing.assert_close(shifted[0], plain[0], atol=1e-6, rtol=1e-5)
    assert torch.equal(shifted[1], plain[1])
    assert kernels["softmax_topk", "triton"] == 2
