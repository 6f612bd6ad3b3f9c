import sys
import types

import narwhals as nw
import pyarrow as pa
import pytest

from headrace.schemas.errors import JobError, ShardError
from headrace.stages.preprocess import check_steps, model_texts
from headrace.stages.texts import BAD_UTF8

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


@pytest.fixture
def steps_of(make_job):
    """Read steps as a job does."""
    return lambda *steps: make_job(preprocess=list(steps)).preprocess


@pytest.fixture
def apply(steps_of):
    """Make texts of columns by steps: the texts and the faults."""

    def make(columns, *steps, prompt=""):
        table = pa.table(columns)
        found = model_texts(table, table.column_names, steps_of(*steps), prompt)
        found.values.validate(full=True)
        assert found.values.type == pa.large_string()
        assert len(found.values) == table.num_rows
        return found.values.to_pylist(), found.faults

    return make


@pytest.fixture
def own_step(monkeypatch):
    """Make a function the user's own step `users_own_steps:step`."""

    def make(function):
        module = types.ModuleType("users_own_steps")
        module.step = function
        monkeypatch.setitem(sys.modules, "users_own_steps", module)
        return {"python": "users_own_steps:step"}

    return make


def test_steps_are_taken_in_order(apply):
    column = {"a": ["  A  b ", None, " "]}
    assert apply(column, "strip", "collapse_whitespace", "lower")[0] == ["a b", None, ""]
    assert apply(column, {"truncate_chars": 3}, "strip")[0] == ["A", None, ""]
    assert apply(column, "strip", {"truncate_chars": 3})[0] == ["A  ", None, ""]
    assert apply(column, "strip", "drop_empty", {"fill_null": "x"})[0] == ["A  b", "x", "x"]
    assert apply(column, {"fill_null": "x"}, "strip", "drop_empty")[0] == ["A  b", "x", None]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_steps_take_every_kind_of_text(apply, kind):
    column = pa.array([" A", None, " A"])
    column = (
        column.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else column.cast(kind)
    )
    assert apply({"a": column}, "strip", "lower") == (["a", None, "a"], {})


def test_columns_that_are_left_are_joined_by_a_space(apply):
    columns = {"a": [" a0", None, ""], "b": ["b0 ", "b1", None]}
    assert apply(columns, "strip") == (["a0 b0", "b1", ""], {})
    assert apply(columns, "drop_empty")[0] == [" a0 b0 ", "b1", None]


def test_after_a_template_the_frame_has_one_column_text(apply):
    columns = {"title": ["T", None], "text": ["x ", None]}
    steps = ({"template": "{title}: {text}"}, "strip", {"template": "<{text}>"})
    assert apply(columns, *steps)[0] == ["<T: x>", None]
    with pytest.raises(JobError, match=r"template: .*\['text'\], got 'title'"):
        apply(columns, steps[0], {"template": "{title}"})


def test_a_bad_byte_is_never_brought_back(apply, own_step):
    columns = {"a": unchecked([b"a0", BAD, None, b"a3"]), "b": unchecked([b"b0", b"b1", BAD, None])}

    def step(frame):
        assert frame.get_column("a").to_list() == ["a0", "x", "x", "a3"]
        return frame.with_columns(nw.lit("made").alias("c"))

    for steps in (
        [{"fill_null": "x"}],
        [{"fill_null": "x"}, {"template": "{a} {b}"}],
        [{"fill_null": "x"}, {"concat": {"columns": ["a", "b"]}}],
        [{"fill_null": "x"}, own_step(step)],
    ):
        values, faults = apply(columns, *steps, prompt="query: ")
        assert faults == {1: BAD_UTF8, 2: BAD_UTF8}
        assert [value is None for value in values] == [False, True, True, False]


def test_a_row_with_a_bad_byte_is_null_to_the_steps_in_every_column(apply, own_step):
    seen = []

    def step(frame):
        seen.append(frame.select("a", "b").rows())
        return frame

    columns = {"a": unchecked([b"a0", BAD]), "b": ["b0", "b1"]}
    apply(columns, own_step(step))
    assert seen == [[("a0", "b0"), (None, None)]]


def test_a_python_step_s_faults_join_the_others(apply, own_step):
    def step(frame):
        if "boom" in frame.get_column("a").to_list():
            raise KeyError("a secret of the row")
        return frame.rename({"a": "b"})

    columns = {"a": unchecked([b"ok", BAD, b"boom", None, b"fine"])}
    steps = ("strip", own_step(step), {"fill_null": "x"}, {"template": "{b}!"})
    values, faults = apply(columns, *steps)
    assert values == ["ok!", None, None, "x!", "fine!"]
    assert faults == {1: BAD_UTF8, 2: "KeyError in preprocess"}


def test_the_first_reason_of_a_row_stays(apply, own_step):
    def step(frame):
        raise ValueError

    values, faults = apply({"a": unchecked([b"x", BAD])}, own_step(step))
    assert values == [None, None]
    assert faults == {0: "ValueError in preprocess", 1: BAD_UTF8}


def test_where_no_row_is_left_the_other_steps_are_not_tried(apply, own_step):
    def step(frame):
        raise ValueError

    unknown = {"template": "{made_by_the_step}"}
    assert apply({"a": ["x", "y"]}, own_step(step), unknown)[0] == [None, None]
    assert apply({"a": pa.array([], pa.string())}, own_step(step), unknown) == ([], {})


def test_a_step_that_takes_no_row_fails_the_shard(apply, own_step):
    def step(frame):
        raise ValueError

    with pytest.raises(ShardError, match="the fault is not in the rows"):
        apply({"a": ["x"] * 64}, own_step(step))


def test_a_prompt_goes_before_what_the_steps_leave(apply):
    columns = {"a": [" A ", None, ""]}
    assert apply(columns, prompt="Query: ")[0] == ["Query:  A ", None, "Query: "]
    assert apply(columns, "strip", "lower", prompt="Query: ")[0] == ["Query: a", None, "Query: "]
    assert apply(columns, "drop_empty", prompt="Query: ")[0] == ["Query:  A ", None, None]


def test_steps_are_tried_on_the_columns_before_any_row_is_read(steps_of):
    twice = steps_of("strip", {"template": "{title}"}, {"template": "{text}"})
    check_steps(["title", "text"], twice)
    with pytest.raises(JobError, match="got 'titel'; did you mean 'title'"):
        check_steps(["title", "text"], steps_of({"template": "{titel}"}))
    with pytest.raises(JobError, match=r"\['text'\], got 'title'"):
        check_steps(["title"], steps_of({"template": "{title}"}, {"template": "{title}"}))


def test_what_a_python_step_leaves_is_not_known_before(steps_of):
    python = {"python": "no_such_module_here:step"}
    check_steps(["title"], steps_of(python, {"template": "{anything}"}))
    with pytest.raises(JobError, match="anything"):
        check_steps(["title"], steps_of({"template": "{anything}"}, python))


def test_a_column_may_be_doubled_only_without_steps(steps_of):
    check_steps(["a", "a"], ())
    with pytest.raises(JobError, match="expected each column once where there are steps"):
        check_steps(["a", "a"], steps_of("strip"))
