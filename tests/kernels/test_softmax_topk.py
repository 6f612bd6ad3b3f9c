import math

import pytest
import torch

from headrace.kernels.softmax_topk.reference import softmax_topk


def by_hand(row, k):
    """Exponentials of plain floats, and of equals the lowest class first."""
    most = max(row)
    parts = [math.exp(value - most) for value in row]
    total = math.fsum(parts)
    order = sorted(range(len(row)), key=lambda at: (-parts[at], at))[:k]
    return [parts[at] / total for at in order], order


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("rows", "classes", "k"), [(1, 1, 1), (5, 3, 2), (17, 33, 33)], ids=["C1", "C3", "C33"]
)
def test_probabilities_and_classes_equal_a_loop(dtype, rows, classes, k):
    generator = torch.Generator().manual_seed(8)
    logits = (torch.randn(rows, classes, generator=generator) * 4).to(dtype)
    scores, order, finite = softmax_topk(logits, k)
    assert (scores.dtype, order.dtype, finite.dtype) == (torch.float32, torch.int64, torch.bool)
    expected = [by_hand(row, k) for row in logits.float().tolist()]
    assert order.tolist() == [classes_of_row for _, classes_of_row in expected]
    torch.testing.assert_close(scores, torch.tensor([each for each, _ in expected]))
    assert finite.all()


def test_all_classes_together_are_certain():
    logits = torch.randn(50, 7, generator=torch.Generator().manual_seed(9)) * 30
    scores, order, _ = softmax_topk(logits, 7)
    torch.testing.assert_close(scores.sum(1), torch.ones(50))
    assert (scores.diff(dim=1) <= 0).all()
    assert [sorted(row) for row in order.tolist()] == [list(range(7))] * 50


def test_equal_classes_come_lowest_first():
    scores, order, _ = softmax_topk(torch.tensor([[1.0, 5.0, 5.0, 1.0, 5.0], [0.0] * 5]), 4)
    assert order.tolist() == [[1, 2, 4, 0], [0, 1, 2, 3]]
    assert scores[1].tolist() == pytest.approx([0.2] * 4)


def test_large_logits_do_not_overflow():
    scores, order, finite = softmax_topk(torch.tensor([[1e30, -1e30, 0.0]]), 2)
    assert (scores.tolist(), order.tolist(), finite.tolist()) == ([[1.0, 0.0]], [[0, 1]], [True])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("rows", "classes", "k"), [(1, 1, 1), (5, 3, 2), (17, 33, 33)], ids=["C1", "C3", "C33"]
)
def test_a_sigmoid_judges_each_class_by_itself(dtype, rows, classes, k):
    generator = torch.Generator().manual_seed(8)
    logits = (torch.randn(rows, classes, generator=generator) * 4).to(dtype)
    scores, order, finite = softmax_topk(logits, k, activation="sigmoid")
    assert (scores.dtype, order.dtype, finite.dtype) == (torch.float32, torch.int64, torch.bool)
    for got, which, row in zip(scores.tolist(), order.tolist(), logits.tolist(), strict=True):
        probabilities = [1 / (1 + math.exp(-value)) for value in row]
        expected = sorted(range(classes), key=lambda at: (-probabilities[at], at))[:k]
        assert which == expected
        assert got == pytest.approx([probabilities[at] for at in expected], rel=1e-5)
    assert finite.all()


def test_certain_classes_come_lowest_first():
    """A sigmoid is 1.0 in float32 from about 17 on: which of them is larger is lost."""
    logits = torch.tensor([[20.0, -1e30, 30.0, 1e30, 0.0]])
    scores, order, finite = softmax_topk(logits, 5, activation="sigmoid")
    assert scores.tolist() == [[1.0, 1.0, 1.0, 0.5, 0.0]]
    assert (order.tolist(), finite.tolist()) == ([[0, 2, 3, 4, 1]], [True])


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_row_with_a_logit_that_is_no_number_is_told(poison, activation):
    logits = torch.zeros(3, 4)
    logits[1, 3] = poison
    scores, _, finite = softmax_topk(logits, 1, activation=activation)
    assert finite.tolist() == [True, False, True]
    assert scores[[0, 2], 0].tolist() == [{"softmax": 0.25, "sigmoid": 0.5}[activation]] * 2
