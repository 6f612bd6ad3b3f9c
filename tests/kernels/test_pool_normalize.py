import math

import pytest
import torch

from headrace.kernels.pool_normalize.reference import normalize, pool

POOLINGS = ("mean", "cls", "last", "max")
# Of float32 itself; the inputs are given, so a narrower dtype loses nothing here.
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 1e-6, torch.float16: 1e-6}


def by_hand(hidden, counts, pooling):
    """Pool with plain Python floats. A row without a token has zeros, or its first place."""
    result = []
    for row, count in zip(hidden.float().tolist(), counts, strict=True):
        kept = row[:count]
        if pooling == "cls":
            result.append(row[0])
        elif pooling == "last":
            result.append(row[max(count - 1, 0)])
        elif not kept:
            result.append([0.0] * len(row[0]))
        elif pooling == "max":
            result.append([max(column) for column in zip(*kept, strict=True)])
        else:
            result.append([math.fsum(column) / count for column in zip(*kept, strict=True)])
    return torch.tensor(result)


def mask_of(counts, length):
    return (torch.arange(length)[None] < torch.tensor(counts)[:, None]).to(torch.int64)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize(
    ("counts", "length", "width"),
    [([7, 3, 1, 0], 7, 5), ([1], 1, 1), ([63, 64, 0, 17, 1], 64, 33)],
    ids=["B4-L7-H5", "B1-L1-H1", "B5-L64-H33"],
)
def test_pooling_equals_a_loop(pooling, dtype, counts, length, width):
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(len(counts), length, width, generator=generator).to(dtype) - 2.0
    pooled = pool(hidden, mask_of(counts, length), pooling)
    assert pooled.dtype == torch.float32
    expected = by_hand(hidden, counts, pooling)
    torch.testing.assert_close(pooled, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("poison", [math.inf, -math.inf, math.nan])
def test_what_stands_in_padding_does_not_matter(pooling, poison):
    counts = [3, 1]
    hidden = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(4))
    mask = mask_of(counts, 4)
    clean = pool(hidden, mask, pooling)
    poisoned = hidden.masked_fill(mask[..., None] == 0, poison)
    assert torch.equal(pool(poisoned, mask, pooling), clean)


def test_a_sum_that_bf16_can_not_hold_is_taken_in_float32():
    hidden = torch.full((1, 1_000, 1), 1.0078125, dtype=torch.bfloat16)
    assert pool(hidden, mask_of([1_000], 1_000), "mean").item() == pytest.approx(
        1.0078125, rel=1e-6
    )


def test_vectors_are_scaled_to_length_one():
    vectors = torch.randn(9, 33, generator=torch.Generator().manual_seed(5)) * 100
    scaled, finite, _ = normalize(vectors, enabled=True)
    norms = [math.sqrt(math.fsum(value * value for value in row)) for row in scaled.tolist()]
    assert norms == pytest.approx([1.0] * 9, abs=1e-6)
    assert finite.all()
    cosine = torch.nn.functional.cosine_similarity(scaled, vectors)
    torch.testing.assert_close(cosine, torch.ones(9), rtol=0, atol=1e-6)


def test_they_are_left_alone_where_it_is_off():
    vectors = torch.randn(3, 5, generator=torch.Generator().manual_seed(6))
    kept, finite, _ = normalize(vectors, enabled=False)
    assert torch.equal(kept, vectors)
    assert finite.all()


@pytest.mark.parametrize("enabled", [True, False])
def test_a_zero_vector_stays_zero_and_is_finite(enabled):
    vectors, finite, _ = normalize(torch.zeros(2, 4), enabled=enabled)
    assert torch.equal(vectors, torch.zeros(2, 4))
    assert finite.tolist() == [True, True]


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("poison", [math.inf, -math.inf, math.nan])
def test_a_row_with_one_value_that_is_no_number_is_told(enabled, poison):
    vectors = torch.ones(3, 4)
    vectors[1, 2] = poison
    _, finite, _ = normalize(vectors, enabled=enabled)
    assert finite.tolist() == [True, False, True]


def test_a_length_that_overflows_is_not_finite():
    vectors = torch.full((1, 4), 1e30)
    assert normalize(vectors, enabled=True)[1].tolist() == [False]
    assert normalize(vectors, enabled=False)[1].tolist() == [True]


@pytest.mark.parametrize("enabled", [True, False])
def test_vectors_are_cast_after_they_were_scaled(enabled):
    vectors = torch.randn(9, 33, generator=torch.Generator().manual_seed(5)) * 1_000
    exact, _, _ = normalize(vectors, enabled=enabled)
    half, finite, _ = normalize(vectors, enabled=enabled, dtype="float16")
    assert half.dtype == torch.float16
    assert torch.equal(half, exact.half())
    assert finite.all()


def test_a_value_that_overflows_the_dtype_is_not_finite():
    """float16 ends at 65,504; what is nearer to it than to the next step is rounded to it."""
    vectors = torch.tensor([[65_519.0, -65_519.0], [65_520.0, 1.0], [1.0, -65_520.0], [1.0, 1.0]])
    half, finite, _ = normalize(vectors, enabled=False, dtype="float16")
    assert half[0].tolist() == [65_504.0, -65_504.0]
    assert finite.tolist() == [True, False, False, True]
    assert normalize(vectors, enabled=True, dtype="float16")[1].all()
