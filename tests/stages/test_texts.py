import pyarrow as pa
import pytest

from headrace.stages.texts import BAD_UTF8, blanked, is_text, valid_text

# Bytes that are not UTF-8, each for another reason.
BAD = {
    "a lone byte": b"\xff",
    "latin-1": b"caf\xe9",
    "cut off": "ü".encode()[:1],
    "a lone surrogate": b"\xed\xa0\x80",
    "too long a form": b"\xc0\x80",
    "beyond Unicode": b"\xf4\x90\x80\x80",
}
GOOD = ["", " ", "\0", "a\0b", "🎉", "\u202eright to left", "e\u0301", "\ufeff", "\U0010ffff"]


def column(values, *kinds):
    array = pa.array(values, pa.binary()).view(pa.string())
    return pa.chunked_array([array if not kinds else array.cast(kinds[0])])


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_what_is_not_utf8_is_a_fault_of_its_row(value):
    found = valid_text(column([b"one", value, None]))
    assert found.values.to_pylist() == ["one", None, None]
    assert found.faults == {1: BAD_UTF8}


def test_strange_text_is_text():
    found = valid_text(column([text.encode() for text in GOOD]))
    assert found.values.to_pylist() == GOOD
    assert found.faults == {}


def test_views_are_checked_too():
    views = pa.array([b"\xff", b"\xff and more than twelve bytes", b"ok"], pa.binary_view())
    found = valid_text(pa.chunked_array([views.view(pa.string_view())]))
    assert found.values.to_pylist() == [None, None, "ok"]
    assert found.faults == {0: BAD_UTF8, 1: BAD_UTF8}


def test_nulls_without_a_type_are_null_texts():
    found = valid_text(pa.chunked_array([pa.nulls(2)]))
    assert found.values.equals(pa.nulls(2, pa.large_string()))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.string(), True),
        (pa.large_string(), True),
        (pa.string_view(), True),
        (pa.dictionary(pa.int8(), pa.string()), True),
        (pa.dictionary(pa.int8(), pa.int64()), False),
        (pa.binary(), False),
        (pa.int64(), False),
        (pa.list_(pa.string()), False),
        (pa.null(), False),
    ],
    ids=str,
)
def test_which_types_are_text(kind, text):
    assert is_text(kind) is text


def test_rows_are_blanked_by_number():
    values = pa.array(["a", "b", None, "d"], pa.large_string())
    assert blanked(values, {0: "why", 3: "why"}).to_pylist() == [None, "b", None, None]
    assert blanked(values, {}) is values
