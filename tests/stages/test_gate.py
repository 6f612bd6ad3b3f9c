import numpy as np
import pytest

from headrace.schemas.plan import ResultFacts
from headrace.stages.forward import BatchResult
from headrace.stages.gate import compare
from headrace.stages.results import Results


def results(values, classes=None, *, rows=None, task="classify", **facts):
    values = np.asarray(values, np.float32)
    known = {"width": 3, "max_length": 16, "pooling": "mean", "normalize": False}
    made = Results(len(values), ResultFacts(task=task, **known | facts))
    placed = np.arange(len(values)) if rows is None else np.asarray(rows, np.int64)
    found = None if classes is None else np.asarray(classes)[placed]
    made.place(placed, BatchResult(values[placed], found, np.ones(len(placed), np.bool_)))
    return made


def vectors(values, **changes):
    return results(values, task="embed", **changes)


def test_vectors_are_judged_by_the_worst():
    safe = vectors([[1, 0, 0], [0, 1, 0]])
    assert compare(safe, vectors([[2, 0, 0], [0, 3, 0]])) == (True, "cosine 1.00000 to fp32")
    assert compare(safe, vectors([[1, 0, 0], [0, 1, 0.1]])) == (False, "cosine 0.99504 to fp32")


def test_zero_is_equal_to_zero_only():
    zero = vectors([[0, 0, 0]])
    assert compare(zero, zero)[0]
    assert not compare(zero, vectors([[0, 0, 1]]))[0]


def test_half_precision_vectors_are_compared_without_overflow():
    values = [[60_000, 60_000, 0]]
    half = vectors(values, dtype="float16")
    assert compare(half, vectors(values, dtype="float16")) == (True, "cosine 1.00000 to fp32")


@pytest.mark.parametrize("rows", [[0], []])
def test_other_rows_are_never_as_good(rows):
    values = [[1, 0, 0], [0, 1, 0]]
    passed, why = compare(vectors(values), vectors(values, rows=rows))
    assert (passed, why) == (False, "it computes other rows than fp32")


def test_first_labels_must_agree_and_the_others_need_not():
    scores = [[0.5, 0.25]] * 2
    safe = results(scores, [[0, 1], [1, 2]], top_k=2)
    assert compare(safe, results(scores, [[0, 2], [1, 0]], top_k=2)) == (
        True,
        "label agreement 1.0000 with fp32",
    )
    assert compare(safe, results(scores, [[0, 1], [2, 1]], top_k=2)) == (
        False,
        "label agreement 0.5000 with fp32",
    )


def test_rows_that_neither_computes_do_not_count():
    scores = [[0.5]] * 3
    safe = results(scores, [[0], [1], [2]], rows=[0, 2])
    assert compare(safe, results(scores, [[0], [2], [2]], rows=[0, 2]))[0]


@pytest.mark.parametrize(
    ("scores", "classes", "passed"),
    [
        ([0.9, 0.8, 0.1], [1, 0, 2], True),  # in another order
        ([0.9, 0.8, 0.4], [0, 1, 2], True),
        ([0.9, 0.4, 0.1], [0, 1, 2], False),  # one is lost
        ([0.9, 0.8, 0.6], [0, 1, 2], False),  # one too many
        ([0.9, 0.8, 0.1], [0, 2, 1], False),
    ],
)
def test_a_row_s_labels_must_be_the_same_ones(scores, classes, passed):
    known = {"top_k": 3, "threshold": 0.5}
    safe = results([[0.9, 0.8, 0.1]], [[0, 1, 2]], **known)
    assert compare(safe, results([scores], [classes], **known)) == (
        passed,
        f"label agreement {passed:.4f} with fp32",
    )


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_one_class_is_judged_by_its_score(threshold):
    """Its label is always the same."""
    known = {"width": 1, "threshold": threshold}
    safe = results([[0.75], [0.25]], [[0], [0]], **known)
    near, far = (results([[0.75], [value]], [[0], [0]], **known) for value in (0.255, 0.265))
    assert compare(safe, near) == (True, "scores within 0.00500 of fp32")
    assert compare(safe, far) == (False, "scores within 0.01500 of fp32")
