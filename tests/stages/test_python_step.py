import sys
import types

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.schemas.errors import JobError, ShardError
from headrace.stages.faults import HOPELESS_ROWS
from headrace.stages.python_step import ROW, run_python_step
from headrace.stages.texts import BAD_UTF8

NAME = "users_own_steps:step"
VALUE_ERROR = "ValueError in preprocess"


@pytest.fixture
def run(monkeypatch):
    """Run a function as a user's step; gives the columns and the faults."""

    def make(function, **columns):
        module = types.ModuleType("users_own_steps")
        module.step = function
        monkeypatch.setitem(sys.modules, "users_own_steps", module)
        table = pa.table({name: pa.array(v, pa.large_string()) for name, v in columns.items()})
        frame, faults = run_python_step(nw.from_native(table, eager_only=True), NAME)
        found = frame.to_native()
        found.validate(full=True)
        assert set(found.schema.types) == {pa.large_string()}
        return found.to_pydict(), faults

    return make


def picky(frame):
    """Raise on some texts, with a text that must not be shown; else upper-case."""
    texts = frame.get_column("text").to_list()
    if any(text is not None and text.startswith("bad") for text in texts):
        raise ValueError(f"a secret: {texts}")
    return frame.with_columns(nw.col("text").str.to_uppercase())


def test_the_function_gets_a_narwhals_frame_with_row_numbers(run):
    seen = []

    def step(frame):
        seen.append(frame)
        return frame

    assert run(step, a=["x", None], b=["y", "z"]) == ({"a": ["x", None], "b": ["y", "z"]}, {})
    (frame,) = seen
    assert isinstance(frame, nw.DataFrame)
    assert frame.to_native().schema == pa.schema(
        [("a", pa.large_string()), ("b", pa.large_string()), (ROW, pa.int64())]
    )
    assert frame.get_column(ROW).to_list() == [0, 1]


def test_columns_may_be_changed_made_and_left_out(run):
    def step(frame):
        return frame.select(ROW, made=nw.col("a").str.to_uppercase(), b="b")

    assert run(step, a=["x", None], b=["y", "z"]) == ({"made": ["X", None], "b": ["y", "z"]}, {})


def numbered(texts, kind=None, rows=None):
    rows = range(len(texts)) if rows is None else rows
    return pa.table({"text": pa.array(texts, kind), ROW: pa.array(rows, pa.int64())})


RETURNS = {
    "arrow table": lambda frame: frame.to_native(),
    "record batch": lambda frame: frame.to_native().combine_chunks().to_batches()[0],
    "polars behind narwhals": lambda frame: nw.from_native(pl.from_arrow(frame.to_arrow())),
    "string": lambda frame: numbered(["x", None], pa.string()),
    "view": lambda frame: numbered(["x", None], pa.string_view()),
    "dictionary": lambda frame: numbered(["x", None], pa.dictionary(pa.int8(), pa.string())),
    "chunks": lambda frame: pa.concat_tables([numbered(["x"]), numbered([None], pa.string(), [1])]),
    "int32 rows": lambda frame: numbered(["x", None]).set_column(
        1, ROW, pa.array([0, 1], pa.int32())
    ),
}


@pytest.mark.parametrize("step", RETURNS.values(), ids=RETURNS)
def test_several_kinds_of_frames_may_be_given_back(run, step):
    assert run(step, text=["x", None]) == ({"text": ["x", None]}, {})


def test_nulls_without_a_type_are_text(run):
    assert run(lambda _: numbered([None, None]), text=["x", None]) == ({"text": [None, None]}, {})


def test_the_order_of_the_rows_is_restored(run):
    def backwards(frame):
        return frame.sort(ROW, descending=True).with_columns(nw.col("text").str.to_uppercase())

    assert run(backwards, text=["x", None, "z"]) == ({"text": ["X", None, "Z"]}, {})


BAD_FRAMES = {
    "expected a Narwhals DataFrame or an Arrow table, got builtins.NoneType": lambda f: None,
    "expected a Narwhals DataFrame or an Arrow table, got narwhals": lambda f: f.lazy(),
    "expected a Narwhals DataFrame or an Arrow table, got polars": lambda f: pl.from_arrow(
        f.to_arrow()
    ),
    f"a step must keep the column {ROW}, got only ['text']": lambda f: f.drop(ROW),
    "a step must keep every row: expected 3 rows, got 2": lambda f: f.head(2),
    "a step must keep every row: expected 3 rows, got 6": lambda f: nw.concat([f, f]),
    f"a step must keep every row: expected each {ROW} once": lambda f: f.with_columns(
        (nw.col(ROW) * 0).alias(ROW)
    ),
    f"expected {ROW} as it was given (int64), got type double": lambda f: f.with_columns(
        nw.col(ROW).cast(nw.Float64)
    ),
    f"expected text columns with distinct names beside {ROW}, got []": lambda f: f.select(ROW),
    f"expected text columns with distinct names beside {ROW}, got ['text', 'text']": lambda f: (
        f.to_native().append_column("text", f.to_native()["text"])
    ),
    f"expected only text columns beside {ROW}, got 'length' of type int64": lambda f: (
        f.with_columns(nw.col("text").str.len_chars().alias("length"))
    ),
}


@pytest.mark.parametrize(("said", "step"), BAD_FRAMES.items(), ids=BAD_FRAMES)
def test_another_frame_is_the_job_s_fault(run, said, step):
    with pytest.raises(JobError) as caught:
        run(step, text=["a secret", "x", "y"])
    assert str(caught.value).startswith(f"preprocess: {NAME}: {said}")
    assert "secret" not in str(caught.value)


def test_a_text_column_of_our_own_name_is_refused(run):
    with pytest.raises(JobError, match="Rename it in the input"):
        run(lambda frame: frame, **{ROW: ["x"]})


def test_a_function_that_is_not_there_is_named():
    frame = nw.from_native(pa.table({"text": pa.array([], pa.large_string())}), eager_only=True)
    with pytest.raises(JobError, match="preprocess: expected MODULE:FUNCTION"):
        run_python_step(frame, "no_such_module_here:step")


def test_the_guilty_rows_are_lost_alone(run):
    texts = [f"t{at}" for at in range(1_000)]
    for at in (0, 417, 418, 999):
        texts[at] = "bad"
    texts[5] = None
    calls = []

    def step(frame):
        calls.append(len(frame))
        return picky(frame)

    found, faults = run(step, text=texts)
    assert faults == dict.fromkeys((0, 417, 418, 999), VALUE_ERROR)
    assert found["text"] == [
        None if at in faults or text is None else text.upper() for at, text in enumerate(texts)
    ]
    assert len(calls) < 80  # bisection, not one by one


def test_a_part_of_the_frame_has_its_own_row_numbers(run):
    def step(frame):
        rows = frame.get_column(ROW).to_list()
        if 5 in rows:
            raise ValueError
        return frame.with_columns(text=nw.col(ROW).cast(nw.String))

    found, faults = run(step, text=["x"] * 9)
    assert found["text"] == [None if at == 5 else str(at) for at in range(9)]
    assert faults == {5: VALUE_ERROR}


def test_bytes_that_are_no_text_are_a_fault_of_their_row(run):
    def step(frame):
        raw = pa.array([b"ok", b"\xff", None, b"\xfe"]).view(pa.string())
        return frame.to_native().set_column(0, "text", raw).take(pa.array([3, 1, 0, 2]))

    assert run(step, text=list("abcd")) == (
        {"text": ["ok", None, None, None]},
        {1: BAD_UTF8, 3: BAD_UTF8},
    )


def test_a_row_that_python_can_not_encode_is_lost_alone(run):
    def step(frame):
        texts = ["\ud800" if text == "b" else text for text in frame.get_column("text").to_list()]
        return frame.to_native().set_column(0, "text", pa.array(texts, pa.string()))

    found, faults = run(step, text=list("abc"))
    assert found["text"] == ["a", None, "c"]
    assert faults == {1: "UnicodeEncodeError in preprocess"}


def test_columns_that_depend_on_the_rows_are_refused(run):
    def step(frame):
        frame = picky(frame)
        return frame if "X" in frame.get_column("text").to_list() else frame.rename({"text": "b"})

    with pytest.raises(JobError, match="expected the same columns each time"):
        run(step, text=["x", "bad", "y", "z"])


def test_so_many_guilty_rows_without_a_good_one_fail_the_shard(run):
    with pytest.raises(
        ShardError, match=rf"first 64 all failed with \['{VALUE_ERROR}'\]"
    ) as caught:
        run(picky, text=["bad secret"] * 1_000)
    assert "secret" not in str(caught.value)
    assert HOPELESS_ROWS == 64


def test_one_good_row_proves_that_the_fault_is_in_the_rows(run):
    found, faults = run(picky, text=["bad", "x", *["bad"] * 98])
    assert len(faults) == 99
    assert found["text"][:3] == [None, "X", None]


def test_fewer_guilty_rows_are_just_guilty_rows(run):
    found, faults = run(picky, text=["bad"] * 63)
    assert faults == dict.fromkeys(range(63), VALUE_ERROR)
    assert len(found["text"]) == 63


def test_the_function_is_not_called_without_rows(run):
    assert run(picky, text=[]) == ({"text": []}, {})


def test_an_interrupt_passes_through(run):
    def step(frame):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(step, text=["x"])


def test_rows_in_chunks_are_cut_by_number_and_not_by_chunk(run, monkeypatch):
    module = types.ModuleType("users_own_steps")
    module.step = picky
    monkeypatch.setitem(sys.modules, "users_own_steps", module)
    parts = [pa.array(part, pa.large_string()) for part in (["a", "bad"], [], ["b"], ["bad", "c"])]
    frame = nw.from_native(pa.table({"text": pa.chunked_array(parts)}), eager_only=True)
    after, faults = run_python_step(frame, NAME)
    assert after.get_column("text").to_list() == ["A", None, "B", None, "C"]
    assert faults == {1: VALUE_ERROR, 3: VALUE_ERROR}
    assert np.array(list(faults)).dtype == np.int64
    assert pc.count(after.to_native()["text"]).as_py() == 3
