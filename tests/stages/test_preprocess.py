import pyarrow as pa
import pytest

from headrace.stages.preprocess import BAD_UTF8, model_texts

BAD = b"bad \xff\xfe byte"


def unchecked(values, kind=None):
    """Make text of bytes that nobody checked, as Parquet does."""
    kind = kind or pa.string()
    return pa.array(
        values, pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()
    ).view(kind)


def texts(columns, names=None):
    table = pa.table(columns)
    found = model_texts(table, names or table.column_names)
    found.values.validate(full=True)
    assert found.values.type == pa.large_string()
    assert len(found.values) == table.num_rows
    return found.values.to_pylist(), found.faults


def test_nulls_stay_null_and_empty_strings_stay_empty():
    assert texts({"a": ["one", None, "", "ünï 🎉"]}) == (["one", None, "", "ünï 🎉"], {})


KINDS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.json_(),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_of_text_gives_the_same_texts(kind):
    values = ["one", None, "", "one", "a longer text that no view holds inline"]
    column = pa.array(values, pa.string())
    column = (
        column.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else column.cast(kind)
    )
    assert texts({"a": column}) == (values, {})


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_column_without_rows_is_fine(kind):
    assert texts({"a": pa.chunked_array([], kind)}) == ([], {})


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_a_bad_byte_costs_its_own_row_only(kind):
    column = unchecked([b"one", BAD, None, b"", "ü".encode(), "ü".encode()[:1]], kind)
    values, faults = texts({"a": column})
    assert values == ["one", None, None, "", "ü", None]
    assert faults == {1: BAD_UTF8, 5: BAD_UTF8}


def test_a_bad_byte_in_a_dictionary_costs_the_rows_that_use_it():
    words = unchecked([b"fine", BAD])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1, 0], pa.int8()), words)
    values, faults = texts({"a": column})
    assert values == ["fine", None, None, None, "fine"]
    assert faults == {1: BAD_UTF8, 3: BAD_UTF8}


def test_rows_are_counted_across_chunks():
    column = pa.chunked_array(
        [unchecked([b"one"]), unchecked([b"two", BAD]), unchecked([b"three"])]
    )
    assert texts({"a": column}) == (["one", "two", None, "three"], {2: BAD_UTF8})


def test_a_slice_counts_its_own_rows():
    table = pa.table({"a": unchecked([BAD, b"one", BAD, b"two"])}).slice(1, 3)
    found = model_texts(table, ["a"])
    assert found.values.to_pylist() == ["one", None, "two"]
    assert found.faults == {1: BAD_UTF8}


def test_several_columns_are_joined_in_the_given_order():
    columns = {
        "a": pa.array(["a0", None, "", None]),
        "b": pa.array(["b0", "b1", "b2", None], pa.large_string()),
        "c": pa.array(["c0", None, None, None]).dictionary_encode(),
    }
    assert texts(columns) == (["a0 b0 c0", "b1", " b2", None], {})
    assert texts(columns, ["c", "a"]) == (["c0 a0", None, "", None], {})


def test_a_bad_byte_in_one_of_several_columns_costs_the_row():
    columns = {
        "a": unchecked([b"a0", BAD, None, BAD]),
        "b": unchecked([b"b0", b"b1", BAD, None]),
    }
    values, faults = texts(columns)
    assert values == ["a0 b0", None, None, None]
    assert faults == dict.fromkeys((1, 2, 3), BAD_UTF8)


def test_the_same_column_twice_is_the_text_twice():
    found = model_texts(pa.table({"a": ["one", None]}), ["a", "a"])
    assert found.values.to_pylist() == ["one one", None]
