import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schemas.plan import ResultFacts
from headrace.stages.faults import NULL_INPUT
from headrace.stages.forward import BatchResult
from headrace.stages.results import Results, output_table, reasons_column

LABELS = ("bad", "good", "so-so")


def facts(task="embed", **changes):
    known = {"width": 2, "max_length": 16, "pooling": "mean", "normalize": True}
    return ResultFacts(task=task, **known | changes)


def place(results, rows, values, classes=None, scales=None):
    values = np.asarray(values, results.values.dtype)
    classes = None if classes is None else np.asarray(classes, np.int64)
    scales = None if scales is None else np.asarray(scales, np.float32)
    finite = np.ones(len(rows), np.bool_)
    results.place(np.asarray(rows), BatchResult(values, classes, finite, scales))


def test_vectors_land_on_their_rows_and_nulls_are_zero_filled():
    results = Results(4, facts())
    place(results, [3, 0], [[7, 8], [1, 2]])
    place(results, [1], [[3, 4]])
    assert results.valid.tolist() == [True, True, False, True]
    (column,) = results.columns()
    column.validate(full=True)
    assert column.type == pa.list_(pa.float32(), 2)
    assert column.type.value_field.name == "element"
    assert column.to_pylist() == [[1, 2], [3, 4], None, [7, 8]]
    assert column.values.to_pylist() == [1, 2, 3, 4, 0, 0, 7, 8]
    assert column.values.null_count == 0


def test_vectors_in_int8_have_their_scales_beside_them():
    results = Results(3, facts(dtype="int8"))
    place(results, [2, 0], [[127, -3], [5, -127]], scales=[0.5, 0.25])
    vectors, scales = results.columns()
    assert vectors.type == pa.list_(pa.field("element", pa.int8()), 2)
    assert vectors.to_pylist() == [[5, -127], None, [127, -3]]
    assert scales.type == pa.float32()
    assert scales.to_pylist() == [0.25, None, 0.5]


def test_vectors_in_bits_have_eight_values_a_byte():
    results = Results(2, facts(dtype="binary", width=9))
    place(results, [0], [[255, 128]])
    (vectors,) = results.columns()
    assert vectors.type == pa.list_(pa.field("element", pa.uint8()), 2)
    assert vectors.to_pylist() == [[255, 128], None]


VECTOR = pa.list_(pa.float32(), 3)
PAIRS = pa.list_(pa.struct([("label", pa.string()), ("score", pa.float32())]))
FORMS = {
    "embed": (facts(width=3), [VECTOR]),
    "half": (facts(width=3, dtype="float16"), [pa.list_(pa.float16(), 3)]),
    "int8": (facts(width=3, dtype="int8"), [pa.list_(pa.int8(), 3), pa.float32()]),
    "binary": (facts(width=9, dtype="binary"), [pa.list_(pa.uint8(), 2)]),
    "one": (facts("classify", width=3, labels=LABELS), [pa.string(), pa.float32()]),
    "best": (
        facts("classify", width=3, labels=LABELS, top_k=2),
        [pa.string(), pa.float32(), PAIRS],
    ),
    "several": (facts("classify", width=3, labels=LABELS, top_k=3, threshold=0.5), [PAIRS]),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_shard_without_rows_has_all_columns(form):
    given, types = FORMS[form]
    columns = Results(0, given).columns()
    assert [column.type for column in columns] == types
    assert all(len(column) == 0 for column in columns)


@pytest.mark.parametrize("form", FORMS)
def test_a_shard_without_a_result_is_all_null(form):
    given, types = FORMS[form]
    columns = Results(3, given).columns()
    assert [column.null_count for column in columns] == [3] * len(types)
    for column in columns:
        column.validate(full=True)


def test_half_precision_vectors_keep_their_bits():
    results = Results(2, facts(dtype="float16"))
    values = np.array([[6e-8, 65504.0]], np.float16)
    results.place(np.array([1]), BatchResult(values, None, np.ones(1, np.bool_)))
    (column,) = results.columns()
    column.validate(full=True)
    assert column.type == pa.list_(pa.float16(), 2)
    assert column.to_pylist() == [None, values[0].tolist()]


def test_a_classifier_gives_label_and_score():
    results = Results(3, facts("classify", width=3, labels=LABELS))
    place(results, [2, 0], [[0.5], [0.25]], [[1], [0]])
    label, score = results.columns()
    assert label.to_pylist() == ["bad", None, "good"]
    assert score.to_pylist() == [0.25, None, 0.5]
    assert score.type == pa.float32()
    filled = np.frombuffer(score.buffers()[1], np.float32, 3)
    assert filled.tolist() == [0.25, 0.0, 0.5]


def test_the_best_classes_come_in_their_order():
    results = Results(3, facts("classify", width=3, labels=LABELS, top_k=2))
    place(results, [2, 0], [[0.5, 0.25], [0.75, 0.125]], [[1, 2], [0, 1]])
    _, _, top = results.columns()
    top.validate(full=True)
    assert top.type == PAIRS
    assert top.to_pylist() == [
        [{"label": "bad", "score": 0.75}, {"label": "good", "score": 0.125}],
        None,
        [{"label": "good", "score": 0.5}, {"label": "so-so", "score": 0.25}],
    ]


def test_every_label_that_reaches_the_threshold_is_given():
    """0.7 is no float32: a score that is nearest to it reaches it. No label is a result too."""
    results = Results(4, facts("classify", width=3, labels=LABELS, top_k=3, threshold=0.7))
    scores = [[0.75, 0.7, 0.25], [0.5, 0.25, 0.0], [1.0, 1.0, 1.0]]
    place(results, [3, 0, 1], scores, [[2, 0, 1], [0, 1, 2], [0, 1, 2]])
    (labels,) = results.columns()
    labels.validate(full=True)
    assert labels.type == PAIRS
    names = [row if row is None else [each["label"] for each in row] for row in labels.to_pylist()]
    assert names == [[], ["bad", "good", "so-so"], None, ["so-so", "bad"]]
    assert [each["score"] for each in labels[3].as_py()] == pytest.approx([0.75, 0.7])


def test_only_the_considered_labels_are_given():
    results = Results(1, facts("classify", width=3, labels=LABELS, top_k=1, threshold=0.0))
    place(results, [0], [[0.25]], [[2]])
    (labels,) = results.columns()
    assert labels.to_pylist() == [[{"label": "so-so", "score": 0.25}]]


def test_reasons_say_why_a_row_has_no_result():
    column = reasons_column(5, np.array([1, 4]), {2: "ValueError in forward"})
    assert column.type == pa.string()
    assert column.to_pylist() == [None, NULL_INPUT, "ValueError in forward", None, NULL_INPUT]


def test_reasons_of_no_row():
    assert reasons_column(0, np.array([], np.int64), {}).type == pa.string()


PASSED = pa.table({"id": [10, 11, 12], "text": ["a", None, "c"]}).replace_schema_metadata(
    {"k": "v"}
)
REASONS = pa.array([None, NULL_INPUT, "ValueError in forward"])
VECTORS = pa.array([[1.0], None, None], pa.list_(pa.float32(), 1))
ADDED = {"embedding": VECTORS, "headrace_error": REASONS}


def test_the_output_is_the_input_with_results_and_reasons_beside_it():
    table = output_table(PASSED, ADDED, [])
    assert table.column_names == ["id", "text", "embedding", "headrace_error"]
    assert table.select(["id", "text"]).equals(PASSED)
    assert table.schema.metadata == {b"k": b"v"}
    assert table.column("headrace_error").to_pylist() == REASONS.to_pylist()


def test_dropped_rows_leave_and_null_inputs_stay():
    table = output_table(PASSED, ADDED, [2])
    assert table.column("id").to_pylist() == [10, 11]
    assert table.column("headrace_error").to_pylist() == [None, NULL_INPUT]
    assert table.schema.metadata == {b"k": b"v"}


@pytest.mark.parametrize(
    "kind", [pa.string_view(), pa.binary_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
@pytest.mark.parametrize("dropped", [[0], [1], [2, 0], [0, 1, 2]], ids=str)
def test_rows_of_every_type_may_be_dropped(kind, dropped):
    words = ["a", None, "a text longer than any view holds inline"]
    kept = [word for row, word in enumerate(words) if row not in dropped]
    column = pa.array(words)
    passed = pa.table({"text": column.dictionary_encode() if "dict" in str(kind) else column})
    passed = passed.cast(pa.schema([("text", kind)]))
    table = output_table(passed, ADDED, dropped)
    table.validate(full=True)
    assert table.schema.field("text").type == kind
    assert table.column("text").cast(pa.string()).to_pylist() == kept


def test_all_rows_may_be_dropped():
    table = output_table(PASSED, ADDED, [0, 1, 2])
    assert table.num_rows == 0
    assert table.column_names == ["id", "text", "embedding", "headrace_error"]


@pytest.mark.parametrize("dropped", [[], [2]])
def test_no_input_column_need_be_kept(dropped):
    table = output_table(PASSED.select([]), ADDED, dropped)
    assert table.column_names == ["embedding", "headrace_error"]
    assert table.num_rows == 3 - len(dropped)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dropped", [[], [2]])
def test_results_survive_parquet(tmp_path, form, dropped):
    given, _ = FORMS[form]
    results = Results(3, given)
    width = results.values.shape[1]
    place(results, [2, 0], [[0.75] * width, [0.25] * width], [range(width), range(width)])
    table = output_table(PASSED, dict(zip("abc", results.columns(), strict=False)), dropped)
    pq.write_table(table, tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").equals(table)
