"""What counts as the same result, and what does not."""

import numpy as np
import pyarrow as pa
import pytest

from headrace.schemas.plan import ResultFacts
from headrace.stages.alike import differing_column, likeness
from headrace.stages.forward import BatchResult
from headrace.stages.results import Results

EMBED = {"task": "embed", "width": 4, "max_length": 16, "pooling": "mean", "normalize": True}
CLASSES = {
    "task": "classify",
    "width": 3,
    "labels": ("a", "b", "c"),
    "max_length": 16,
    "pooling": "mean",
    "normalize": False,
}


def results(values, classes=None, scales=None, **facts):
    values = np.array(values)
    made = Results(len(values) + 1, ResultFacts(**facts))  # the last row has none
    rows = np.arange(len(values))
    classes = None if classes is None else np.array(classes)
    scales = None if scales is None else np.array(scales, np.float32)
    made.place(rows, BatchResult(values, classes, rows >= 0, scales))
    return made


def compared(ours, theirs):
    columns = theirs.columns()
    return likeness(ours, pa.table(list(columns), names=[str(at) for at in range(len(columns))]))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vectors_that_point_the_same_way_are_alike(dtype):
    ours = results([[1, 2, 3, 4], [1, 0, 0, 0]], **EMBED, dtype=dtype)
    theirs = results([[1, 2, 3, 4.01], [1, 0, 0, 0.5]], **EMBED, dtype=dtype)
    found = compared(ours, theirs)
    assert found.good.tolist() == [True, False, True]
    assert found.values[0] == pytest.approx(1.0, abs=1e-4)
    assert found.values[1] == pytest.approx(1 / np.sqrt(1.25), abs=1e-3)
    assert found.measure == "lowest cosine 0.8944"


def test_a_vector_of_another_length_is_not_alike():
    found = compared(results([[2.0, 0, 0, 0]], **EMBED), results([[1.0, 0, 0, 0]], **EMBED))
    assert found.good.tolist() == [False, True]


def test_int8_vectors_count_with_their_scales():
    ours = results(np.array([[127, 0, 1, 2]], np.int8), scales=[0.5], **EMBED, dtype="int8")
    same = results(np.array([[127, 0, 1, 2]], np.int8), scales=[0.5], **EMBED, dtype="int8")
    other = results(np.array([[127, 0, 1, 2]], np.int8), scales=[0.7], **EMBED, dtype="int8")
    assert compared(ours, same).good.all()
    assert compared(ours, other).good.tolist() == [False, True]


def test_binary_vectors_are_compared_bit_by_bit():
    facts = EMBED | {"width": 40, "dtype": "binary"}
    ours = results(np.full((2, 5), 0b10101010, np.uint8), **facts)
    there = np.full((2, 5), 0b10101010, np.uint8)
    there[0, 0] ^= 1  # one of 40
    there[1, 1] ^= 0b1111
    found = compared(ours, results(there, **facts))
    assert found.good.tolist() == [True, False, True]
    assert found.values.tolist() == [39 / 40, 36 / 40, 1]


def test_a_row_that_only_one_side_has_is_not_alike():
    ours, theirs = results([[1.0, 0, 0, 0]], **EMBED), results([[1.0, 0, 0, 0]], **EMBED)
    theirs.valid[0] = False
    assert compared(ours, theirs).good.tolist() == [False, True]


def test_one_label_a_row_may_differ_only_where_two_are_equally_probable():
    ours = results([[0.9], [0.9], [0.451], [0.9]], [[0], [0], [0], [0]], **CLASSES)
    theirs = results([[0.905], [0.8], [0.452], [0.9]], [[0], [0], [1], [1]], **CLASSES)
    assert compared(ours, theirs).good.tolist() == [True, False, True, False, True]


def test_the_best_classes_are_compared_score_by_score():
    facts = CLASSES | {"top_k": 2}
    ours = results([[0.5, 0.251], [0.5, 0.3]], [[0, 1], [0, 1]], **facts)
    theirs = results([[0.5, 0.25], [0.5, 0.45]], [[0, 2], [0, 2]], **facts)
    assert compared(ours, theirs).good.tolist() == [True, False, True]


def test_labels_beyond_a_threshold_are_compared_with_it():
    facts = CLASSES | {"top_k": 3, "threshold": 0.5, "activation": "sigmoid"}
    every = [[0, 1, 2]] * 3
    ours = results([[0.9, 0.501, 0.1], [0.9, 0.7, 0.1], [0.1, 0.1, 0.1]], every, **facts)
    theirs = results([[0.9, 0.499, 0.1], [0.9, 0.4, 0.1], [0.1, 0.1, 0.1]], every, **facts)
    assert compared(ours, theirs).good.tolist() == [True, False, True, True]


def test_columns_are_the_same_bit_for_bit():
    nan, other_nan = (np.array([bits], np.uint64).view(float)[0] for bits in NANS)
    table = pa.table({"id": [1, None], "x": [nan, 0.0], "deep": [[{"y": nan}], None]})
    assert differing_column(table, table) is None
    assert differing_column(table, table.set_column(0, "id", [[1, 2]])) == "id"
    assert differing_column(table, table.set_column(1, "x", [[other_nan, 0.0]])) == "x"
    assert differing_column(table, table.set_column(1, "x", [[nan, -0.0]])) == "x"
    assert differing_column(table, table.set_column(2, "deep", [[[{"y": 1.0}], None]])) == "deep"
    wider = table.set_column(0, "id", pa.array([1, None], pa.int32()))
    assert differing_column(table, wider) == "id"


NANS = (0x7FF8000000000000, 0x7FF8000000000001)
