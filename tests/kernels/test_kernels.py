"""Every Triton kernel against its reference, in Triton's interpreter."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.kernels.bias_gelu import launch as bias_gelu
from headrace.kernels.bias_gelu import reference as bias_gelu_truth
from headrace.kernels.embed_layernorm import launch as embed_layernorm
from headrace.kernels.embed_layernorm import reference as embed_layernorm_truth
from headrace.kernels.pack_gather import launch as pack_gather
from headrace.kernels.pack_gather import reference as pack_gather_truth
from headrace.kernels.pad_gather import launch as pad_gather
from headrace.kernels.pad_gather import reference as pad_gather_truth
from headrace.kernels.pool_normalize import launch as pool_normalize
from headrace.kernels.pool_normalize import reference as pool_normalize_truth
from headrace.kernels.residual_layernorm import launch as residual_layernorm
from headrace.kernels.residual_layernorm import reference as residual_layernorm_truth
from headrace.kernels.softmax_topk import launch as softmax_topk
from headrace.kernels.softmax_topk import reference as softmax_topk_truth
from headrace.kernels.varlen_attention import launch as varlen_attention
from headrace.kernels.varlen_attention import reference as varlen_attention_truth

HALF = [torch.float32, torch.float16, torch.bfloat16]
FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def random(*shape, dtype=torch.float32, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) * scale).to(dtype)


def whole(values):
    return torch.tensor(values, dtype=torch.int64)


@FEW
@given(
    rows=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    room=st.integers(1, 11),
    first=st.integers(0, 2),
    last=st.integers(0, 2),
    data=st.data(),
)
def test_pad_gather(kernels, rows, room, first, last, data):
    counts = whole(rows)
    ids = torch.arange(1, int(counts.sum()) + 1, dtype=torch.int32)
    chosen = data.draw(st.lists(st.integers(-1, len(rows) - 1), min_size=1, max_size=6))
    given_ = (
        ids,
        counts.cumsum(0) - counts,
        counts,
        whole(chosen),
        room + first + last,
        7,
        whole([101, 102][:first]),
        whole([103, 104][:last]),
    )
    before = kernels["pad_gather", "triton"]
    found, expected = pad_gather.pad_gather(*given_), pad_gather_truth.pad_gather(*given_)
    assert kernels["pad_gather", "triton"] == before + 1
    for left, right in zip(found, expected, strict=True):
        assert torch.equal(left, right)


def test_pad_gather_cuts_a_row_in_pieces(kernels):
    counts = whole([700, 3])
    given_ = (
        torch.arange(703, dtype=torch.int32),
        whole([0, 700]),
        counts,
        whole([1, -1, 0]),
        600,
        0,
        whole([101]),
        whole([102]),
    )
    found, expected = pad_gather.pad_gather(*given_), pad_gather_truth.pad_gather(*given_)
    assert all(torch.equal(left, right) for left, right in zip(found, expected, strict=True))
    assert kernels["pad_gather", "triton"] == 1


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(("classes", "k"), [(1, 1), (2, 2), (33, 7), (1_025, 32), (3_000, 3)])
def test_softmax_topk(kernels, same, classes, k, dtype, activation):
    # Rounded, so that there are equals: the lowest class comes first.
    logits = random(3, classes, scale=4.0).round(decimals=1).to(dtype)
    found = softmax_topk.softmax_topk(logits, k, activation=activation)
    expected = softmax_topk_truth.softmax_topk(logits, k, activation=activation)
    same(found[0], expected[0])
    assert torch.equal(found[1], expected[1])
    assert found[2].all()
    assert kernels["softmax_topk", "triton"] == 1
    if activation == "softmax" and k == classes:
        torch.testing.assert_close(found[0].sum(1), torch.ones(3))


def test_softmax_topk_takes_large_logits_and_strides_and_tells_what_is_no_number(kernels, same):
    logits = torch.tensor([[1e4, 9e3, -1e4], [3e38, -3e38, 0.0], [0.0, torch.nan, 1.0]])
    wide = torch.cat([logits, torch.full((3, 2), torch.inf)], 1)[:, :3]
    assert not wide.is_contiguous()
    found = softmax_topk.softmax_topk(wide, 2)
    expected = softmax_topk_truth.softmax_topk(wide, 2)
    assert found[2].tolist() == expected[2].tolist() == [True, True, False]
    same(found[0][:2], expected[0][:2])
    assert torch.equal(found[1][:2], expected[1][:2])
    assert kernels["softmax_topk", "triton"] == 1


@pytest.mark.parametrize("form", ["erf", "tanh"])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("shape", [(1, 1), (7, 33), (3, 1_536)])
def test_bias_gelu(kernels, same, shape, dtype, form):
    x = random(*shape, dtype=dtype, scale=4.0)
    bias = random(shape[1], dtype=dtype, seed=1)
    found = bias_gelu.bias_gelu(x, bias, form)
    same(found, bias_gelu_truth.bias_gelu(x, bias, form))
    assert kernels["bias_gelu", "triton"] == 1


@pytest.mark.parametrize("form", ["erf", "tanh"])
def test_bias_gelu_at_the_ends(kernels, same, form):
    x = torch.tensor([[-60_000.0, -20.0, -0.0, 0.0, 20.0, 60_000.0, torch.nan]])
    found = bias_gelu.bias_gelu(x, torch.zeros(7), form)
    same(found, bias_gelu_truth.bias_gelu(x, torch.zeros(7), form))


def layernorm_inputs(rows, width, dtype, offset=0.0):
    return (
        random(rows, width, dtype=dtype) + offset,
        random(width, dtype=dtype, seed=1),
        random(rows, width, dtype=dtype, seed=2),
        random(width, dtype=dtype, seed=3),
        random(width, dtype=dtype, seed=4),
    )


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("width", [1, 33, 384, 1_000])
def test_residual_layernorm(kernels, same, width, dtype):
    given_ = layernorm_inputs(3, width, dtype)
    found = residual_layernorm.residual_layernorm(*given_, 1e-12)
    same(found, residual_layernorm_truth.residual_layernorm(*given_, 1e-12))
    assert kernels["residual_layernorm", "triton"] == 1


def test_residual_layernorm_far_from_zero_loses_nothing_that_float32_has(kernels):
    """A variance of sums of squares would be gone here."""
    given_ = layernorm_inputs(3, 384, torch.float32, offset=1_000.0)
    found = residual_layernorm.residual_layernorm(*given_, 1e-12)
    exact = residual_layernorm_truth.residual_layernorm(*given_, 1e-12)
    torch.testing.assert_close(found, exact, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("width", [33, 384])
def test_embed_layernorm(kernels, same, width, dtype):
    given_ = (
        torch.tensor([0, 49, 3, 3, 7]),
        torch.tensor([8, 0, 1, 2, 2]),
        random(50, width, dtype=dtype),
        random(9, width, dtype=dtype, seed=1),
        random(width, dtype=dtype, seed=2),
        random(width, dtype=dtype, seed=3),
        random(width, dtype=dtype, seed=4),
    )
    found = embed_layernorm.embed_layernorm(*given_, 1e-5)
    same(found, embed_layernorm_truth.embed_layernorm(*given_, 1e-5))
    assert kernels["embed_layernorm", "triton"] == 1


STARTS, ENDS = whole([0, 5, 5, 10, 30]), whole([5, 5, 10, 29, 31])


@pytest.mark.parametrize(
    ("pooling", "normalize", "dtype"),
    list(itertools.product(["mean", "cls", "last", "max"], [True, False], ["float32", "float16"])),
)
def test_pool_normalize(kernels, same, pooling, normalize, dtype):
    hidden = random(40, 33, dtype=torch.bfloat16)
    hidden[12, 3] = torch.nan
    for width in (1, 20, 33):
        found, finite, _ = pool_normalize.pool_normalize(
            hidden, STARTS, ENDS, pooling, width, normalize=normalize, dtype=dtype
        )
        pooled = pool_normalize_truth.pool_ragged(hidden, STARTS, ENDS, pooling)
        expected, told, _ = pool_normalize_truth.normalize(
            pooled[:, :width], enabled=normalize, dtype=dtype
        )
        assert torch.equal(finite, told)
        same(found[told], expected[told])
        if normalize:
            norms = found.float().norm(dim=1)[told & (ENDS > STARTS)]
            torch.testing.assert_close(norms, torch.ones_like(norms), atol=2e-3, rtol=0)
    assert kernels["pool_normalize", "triton"] == 3


def test_pool_normalize_takes_padded_states_as_pool_does(kernels, same):
    hidden = random(4, 7, 16)
    counts = whole([7, 1, 0, 3])
    mask = (torch.arange(7)[None, :] < counts[:, None]).long()
    for pooling in ("mean", "last", "max"):
        found = pool_normalize.pool_normalize_padded(hidden, mask, pooling, 16, normalize=False)
        expected = pool_normalize_truth.pool(hidden, mask, pooling)
        same(found.values[counts > 0], expected[counts > 0])
    assert kernels == {("pool_normalize", "triton"): 3}


@pytest.mark.parametrize("value", [1e30, torch.inf, torch.nan])
def test_pool_normalize_tells_what_is_not_finite(kernels, value):
    hidden = random(40, 8)
    hidden[0, 1] = value
    _, finite, _ = pool_normalize.pool_normalize(hidden, STARTS, ENDS, "mean", 8, normalize=True)
    assert finite.tolist() == [False, True, True, True, True]


def test_pool_normalize_tells_what_a_cast_overflows(kernels):
    hidden = random(40, 8)
    hidden[0] = 1e6
    _, finite, _ = pool_normalize.pool_normalize(
        hidden, STARTS, ENDS, "mean", 8, normalize=False, dtype="float16"
    )
    assert finite.tolist() == [False, True, True, True, True]


EDGES = torch.tensor([0, 1, 1, 71, 140], dtype=torch.int32)  # of one token, none, and more


def blocks_of(counts):
    counts = np.array(counts)
    most = varlen_attention.most_blocks(int(counts.sum()), counts.size)
    return torch.from_numpy(varlen_attention.query_blocks(counts, most))


BLOCKS = blocks_of([1, 0, 70, 69])


def test_query_blocks_name_every_query_once():
    assert BLOCKS.tolist() == [[0, 0], [2, 0], [2, 64], [3, 0], [3, 64], [-1, -1]]


# Triton's interpreter does not multiply bf16 matrices; that form is compiled (test_kernel_code.py).
@pytest.mark.parametrize("dtype", HALF[:2])
@pytest.mark.parametrize("size", [32, 64, 128])
def test_varlen_attention(kernels, same, size, dtype):
    qkv = random(150, 3, 2, size, dtype=dtype)
    found = varlen_attention.varlen_attention(qkv, EDGES, BLOCKS)
    same(found, varlen_attention_truth.varlen_attention(qkv, EDGES, BLOCKS))
    assert (found[140:] == 0).all()
    assert kernels["varlen_attention", "triton"] == 1


def test_varlen_attention_keeps_sequences_apart(kernels, same):
    """Whatever shares the pack, and however large it is."""
    qkv = random(140, 3, 1, 32)
    alone = varlen_attention.varlen_attention(
        qkv[1:71].contiguous(), EDGES[2:4] - 1, blocks_of([70])
    )
    loud = qkv.clone()
    loud[71:] = 1e4
    found = varlen_attention.varlen_attention(loud, EDGES, BLOCKS)
    same(found[1:71], alone)


def test_varlen_attention_takes_large_scores(kernels, same):
    qkv = random(70, 3, 1, 32, scale=50.0)
    edges = torch.tensor([0, 70], dtype=torch.int32)
    found = varlen_attention.varlen_attention(qkv, edges, blocks_of([70]))
    expected = varlen_attention_truth.varlen_attention(qkv, edges, blocks_of([70]))
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-3)


def test_attention_without_a_head_of_a_known_size_takes_the_reference(kernels):
    qkv = random(10, 3, 2, 48)
    varlen_attention.varlen_attention(
        qkv, torch.tensor([0, 10], dtype=torch.int32), blocks_of([10])
    )
    assert kernels == {("varlen_attention", "reference"): 1}


def test_what_does_not_fit_a_kernel_takes_the_reference(kernels):
    softmax_topk.softmax_topk(random(2, 40), 33)
    softmax_topk.softmax_topk(random(2, 5, dtype=torch.float64), 1)
    bias_gelu.bias_gelu(random(0, 4), random(4))
    residual_layernorm.residual_layernorm(*layernorm_inputs(2, 4, torch.float64), 1e-12)
    assert set(kernels) == {
        (op, "reference") for op in ("softmax_topk", "bias_gelu", "residual_layernorm")
    }


def test_on_a_cpu_the_references_run():
    from headrace.kernels.choice import COUNTS

    before = COUNTS["bias_gelu", "triton"]
    bias_gelu.bias_gelu(random(2, 4), random(4))
    assert COUNTS["bias_gelu", "triton"] == before


@pytest.mark.parametrize("width", [1, 20, 33])
@pytest.mark.parametrize("dtype", ["int8", "binary"])
def test_pool_normalize_writes_few_bits(kernels, width, dtype):
    hidden = random(40, 33, dtype=torch.bfloat16)
    given_ = (hidden, STARTS, ENDS, "mean", width)
    found = pool_normalize.pool_normalize(*given_, normalize=True, dtype=dtype)
    exact = pool_normalize.pool_normalize(*given_, normalize=True).values
    pooled = pool_normalize_truth.pool_ragged(hidden, STARTS, ENDS, "mean")[:, :width]
    truth = pool_normalize_truth.normalize(pooled, enabled=True, dtype=dtype)
    if dtype == "binary":
        expected = torch.from_numpy(np.packbits(exact.numpy() > 0, axis=1))
        assert torch.equal(found.values, expected)
        assert torch.equal(truth.values, expected)
    else:
        assert found.values.dtype == torch.int8
        half_a_step = found.scales[:, None] * 0.501
        assert ((found.values * found.scales[:, None] - exact).abs() <= half_a_step).all()
        assert (found.values.abs().amax(1)[ENDS > STARTS] == 127).all()
        torch.testing.assert_close(found.values, truth.values, atol=1, rtol=0)
        torch.testing.assert_close(found.scales, truth.scales)
    assert found.finite.all()
    assert kernels["pool_normalize", "triton"] == 2


@FEW
@given(
    rows=st.lists(st.integers(0, 300), min_size=1, max_size=5),
    first=st.integers(0, 2),
    last=st.integers(0, 2),
    cut=st.integers(0, 3),
    spare=st.integers(0, 300),
    data=st.data(),
)
def test_pack_gather(kernels, rows, first, last, cut, spare, data):
    counts = whole(rows)
    ids = torch.arange(1, int(counts.sum()) + 1, dtype=torch.int32)
    starts = counts.cumsum(0) - counts
    chosen = whole(data.draw(st.permutations(range(len(rows)))))
    kept = (counts[chosen] - cut).clamp(min=0)
    ends = (kept + first + last).cumsum(0)
    edges = torch.cat([whole([0]), ends, ends[-1:]]).int()  # the last one is no row
    before, behind = whole([101, 102][:first]), whole([103, 104][:last])
    tokens = int(edges[-1]) + spare
    given_ = (ids, starts, torch.cat([chosen, whole([-1])]), edges, tokens, 7, before, behind)
    found, expected = pack_gather.pack_gather(*given_), pack_gather_truth.pack_gather(*given_)
    by_hand = [
        [*before.tolist(), *ids[starts[row] : starts[row] + count].tolist(), *behind.tolist()]
        for row, count in zip(chosen.tolist(), kept.tolist(), strict=True)
    ]
    assert expected[0].tolist() == [*itertools.chain(*by_hand), *[7] * spare]
    places = [at for row in by_hand for at in range(len(row))]
    assert expected[1].tolist() == places + [0] * spare
    assert all(torch.equal(left, right) for left, right in zip(found, expected, strict=True))
