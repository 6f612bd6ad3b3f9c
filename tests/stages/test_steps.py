import re

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.errors import JobError
from headrace.schemas.steps import (
    BARE_STEPS,
    Concat,
    FillNull,
    Joining,
    Replace,
    Replacement,
    Template,
    TruncateChars,
)
from headrace.stages.steps import TEXT, WHITESPACE, apply_step, joined, prefixed


def replace(find, with_, *, regex=False):
    return Replace(replace=Replacement(**{"find": find, "with": with_, "regex": regex}))


def concat(*columns, separator=" "):
    return Concat(concat=Joining(columns=columns, separator=separator))


def frame_of(columns):
    """Each column in two chunks, if it has two rows."""
    arrays = {
        name: pa.chunked_array(
            [pa.array(part, pa.large_string()) for part in (values[:1], values[1:])]
        )
        for name, values in columns.items()
    }
    return nw.from_native(pa.table(arrays), eager_only=True)


def checked(frame):
    """The columns, after a look at what Arrow holds."""
    table = frame.to_native()
    table.validate(full=True)
    assert set(table.schema.types) == {pa.large_string()}
    return table.to_pydict()


def values(step, *texts):
    return checked(apply_step(frame_of({"a": list(texts)}), step))["a"]


def test_whitespace_is_the_six_of_ascii():
    assert sorted(WHITESPACE) == [*"\t\n\v\f\r", " "]


def test_strip():
    found = values(
        "strip", f"{WHITESPACE}a b{WHITESPACE}", None, "", WHITESPACE, "\u00a0a\u2003", "\0 "
    )
    assert found == ["a b", None, "", "", "\u00a0a\u2003", "\0"]


def test_lower():
    assert values("lower", "ABC", None, "ÉÄ", "ß中🎉\0") == ["abc", None, "éä", "ß中🎉\0"]


def test_collapse_whitespace():
    found = values("collapse_whitespace", f"a{WHITESPACE}b\n\nc ", None, "", "\t", "a\u00a0\u00a0b")
    assert found == ["a b c ", None, "", " ", "a\u00a0\u00a0b"]


def test_drop_empty():
    assert values("drop_empty", "", "a", None, " ", "") == [None, "a", None, " ", None]


def test_truncate_counts_code_points():
    found = values(
        TruncateChars(truncate_chars=3), "abcd", None, "", "中文🎉é", "e\u0301e\u0301", "ab"
    )
    assert found == ["abc", None, "", "中文🎉", "e\u0301e", "ab"]


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (replace(".", "!"), ["a!b!", None, "", "x1 22"]),
        (replace(".", "!", regex=True), ["!!!!", None, "", "!!!!!"]),
        (replace(r"\d+", "0", regex=True), ["a.b.", None, "", "x0 0"]),
        (replace(r"(\w)\.", r"<\1>", regex=True), ["<a><b>", None, "", "x1 22"]),
        (replace(r"\d", r"\0", regex=False), ["a.b.", None, "", "x1 22"]),
        (replace("b.", ""), ["a.", None, "", "x1 22"]),
        (replace("^", ">", regex=True), [">a.b.", None, ">", ">x1 22"]),
    ],
    ids=["literal", "any", "digits", "group", "literal backslash", "nothing there", "empty match"],
)
def test_replace(step, found):
    assert values(step, "a.b.", None, "", "x1 22") == found


def test_a_literal_replacement_is_taken_as_it_is():
    assert values(replace("a", r"\1$1"), "cat") == [r"c\1$1t"]


def test_fill_null():
    assert values(FillNull(fill_null="unknown"), None, "a", "") == ["unknown", "a", ""]
    assert values(FillNull(fill_null=""), None) == [""]


COLUMNS = {
    "title": ["T0", None, "T2", None, ""],
    "text": ["x0", "x1", None, None, ""],
    "other": ["o0", "o1", "o2", "o3", None],
}


def test_a_template_leaves_one_column_text():
    found = checked(apply_step(frame_of(COLUMNS), Template(template="{title}: {{{text}}} {title}")))
    assert found == {TEXT: ["T0: {x0} T0", ": {x1} ", "T2: {} T2", None, ": {} "]}


def test_a_template_of_one_column():
    found = checked(apply_step(frame_of(COLUMNS), Template(template="{other}!")))
    assert found == {TEXT: ["o0!", "o1!", "o2!", "o3!", None]}


def test_concat_leaves_nulls_out_with_their_separator():
    found = checked(apply_step(frame_of(COLUMNS), concat("title", "text", separator=". ")))
    assert found == {TEXT: ["T0. x0", "x1", "T2", None, ". "]}


def test_concat_takes_the_columns_in_the_given_order_and_again():
    found = checked(apply_step(frame_of(COLUMNS), concat("other", "title", "other", separator="")))
    assert found == {TEXT: ["o0T0o0", "o1o1", "o2T2o2", "o3o3", ""]}
    assert checked(apply_step(frame_of(COLUMNS), concat("title")))[TEXT] == COLUMNS["title"]


def test_the_other_steps_act_on_every_column():
    found = checked(apply_step(frame_of({"a": ["A ", None], "b": [None, " B"]}), "strip"))
    assert found == {"a": ["A", None], "b": [None, "B"]}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Template(template="{titel}"), "template: expected one of the columns that this step gets"),
        (concat("text", "titel"), "concat: expected one of the columns that this step gets"),
    ],
    ids=["template", "concat"],
)
def test_an_unknown_column_is_named_with_the_nearest(step, said):
    with pytest.raises(JobError) as caught:
        apply_step(frame_of(COLUMNS), step)
    assert said in str(caught.value)
    assert str(caught.value).endswith("got 'titel'; did you mean 'title'?")


def test_a_prompt_goes_before_each_text_and_no_null():
    frame = frame_of({TEXT: ["a", None, ""]})
    assert checked(prefixed(frame, "query: ")) == {TEXT: ["query: a", None, "query: "]}


EVERY = [
    *BARE_STEPS,
    TruncateChars(truncate_chars=1),
    replace("a", "b"),
    replace("a", "b", regex=True),
    FillNull(fill_null="x"),
    Template(template="{title} {text}"),
    concat("title", "text"),
]


@pytest.mark.parametrize("step", EVERY, ids=str)
@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_a_frame_without_rows_and_one_in_many_chunks(step, chunks):
    part = pa.table({name: pa.array(["a", None], pa.large_string()) for name in COLUMNS})
    table = pa.concat_tables([part] * chunks) if chunks else part.slice(0, 0)
    after = apply_step(nw.from_native(table, eager_only=True), step)
    assert len(after) == 2 * chunks
    checked(after)


texts = st.one_of(st.none(), st.text(max_size=8))


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=6))
def test_joining_is_what_python_would_do(rows):
    frame = frame_of({"a": [a for a, _ in rows], "b": [b for _, b in rows]})
    expected = [
        None if a is None and b is None else " ".join(t for t in (a, b) if t is not None)
        for a, b in rows
    ]
    assert checked(joined(frame, ["a", "b"], " ")) == {TEXT: expected}


@given(st.lists(st.text(alphabet=f"{WHITESPACE}ab\u00a0", max_size=9), min_size=1, max_size=6))
def test_collapsing_is_what_python_would_do(rows):
    expected = [re.sub(f"[{WHITESPACE}]+", " ", text) for text in rows]
    assert values("collapse_whitespace", *rows) == expected


@given(st.lists(texts, min_size=1, max_size=6))
def test_stripping_and_cutting_are_what_python_would_do(rows):
    assert values("strip", *rows) == [t if t is None else t.strip(WHITESPACE) for t in rows]
    assert values(TruncateChars(truncate_chars=2), *rows) == [
        t if t is None else t[:2] for t in rows
    ]
