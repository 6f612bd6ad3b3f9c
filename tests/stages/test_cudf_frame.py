import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gpu_support import install
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.plan import Slice
from headrace.stages.cudf_frame import (
    bounded,
    cuts,
    frame_of,
    read_frame,
    rows_where,
    text_buffers,
)


@pytest.fixture(autouse=True)
def _cudf(monkeypatch):
    install(monkeypatch)


TEXTS = ["one", None, "", "four", "Ünï", "six"]


@pytest.fixture
def file(tmp_path):
    table = pa.table({"text": TEXTS, "other": TEXTS[::-1], "id": range(6)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4)
    return tmp_path / "a.parquet"


@pytest.mark.parametrize(
    ("piece", "rows"),
    [
        (Slice("a.parquet", 0, 0, 4), slice(0, 4)),
        (Slice("a.parquet", 1, 0, 2), slice(4, 6)),
        (Slice("a.parquet", 0, 1, 2), slice(1, 3)),
        (Slice("a.parquet", 1, 1, 1), slice(5, 6)),
    ],
)
def test_a_slice_s_rows_are_read_and_only_the_columns_asked_for(file, piece, rows):
    frame = read_frame(file, piece, ["other", "text"])
    assert list(frame.columns) == ["other", "text"]
    assert frame.to_arrow()["text"].to_pylist() == TEXTS[rows]
    assert frame.to_arrow()["other"].to_pylist() == TEXTS[::-1][rows]


def test_a_column_that_is_not_there_is_an_error(file):
    with pytest.raises(ValueError, match="nope"):
        read_frame(file, Slice("a.parquet", 0, 0, 4), ["text", "nope"])


def test_other_rows_than_planned_are_an_error(file):
    with pytest.raises(RuntimeError, match="expected 9 rows on the device, got 5"):
        read_frame(file, Slice("a.parquet", 0, 1, 9), ["text"])


def series(values, kind=None):
    return frame_of(pa.table({"text": pa.array(values, kind or pa.string())}))["text"]


def joined(text):
    data, edges = text_buffers(text)
    assert edges[0] == 0
    assert edges[-1] == data.numel()
    whole = bytes(data.tolist())
    return [whole[a:b] for a, b in zip(edges.tolist(), edges.tolist()[1:], strict=False)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_column_s_memory_is_its_rows(kind):
    assert joined(series(TEXTS, kind)) == [(text or "").encode() for text in TEXTS]


def test_a_slice_s_memory_is_its_own_rows():
    assert joined(series(TEXTS).iloc[2:5]) == [b"", b"four", "Ünï".encode()]


@pytest.mark.parametrize("values", [[], [None], [""], ["", None]])
def test_rows_without_a_byte_have_none(values):
    assert joined(series(values)) == [b""] * len(values)


def test_all_rows_are_taken_without_a_copy():
    text = series(TEXTS)
    assert rows_where(text, np.arange(6)) is text
    assert rows_where(text, np.array([0, 4])).to_arrow().to_pylist() == ["one", "Ünï"]


@given(
    frames=st.lists(st.lists(st.text(max_size=9) | st.none(), max_size=6), max_size=5),
    most=st.integers(1, 30),
)
def test_frames_are_cut_and_joined_in_order(frames, most):
    given_ = [frame_of(pa.table({"text": pa.array(rows, pa.string())})) for rows in frames]
    out = [frame.to_arrow()["text"].to_pylist() for frame in bounded(given_, most)]
    assert [text for rows in out for text in rows] == [text for rows in frames for text in rows]
    sizes = [sum(len((text or "").encode()) for text in rows) for rows in out]
    assert all(size <= most or len(rows) == 1 for size, rows in zip(sizes, out, strict=True))
    assert all(out)


def test_both_columns_count():
    frame = frame_of(pa.table({"a": ["xx"] * 4, "b": ["yyy"] * 4}))
    assert [len(part) for part in bounded([frame], 10)] == [2, 2]


@given(sizes=st.lists(st.integers(0, 9), max_size=30), most=st.integers(1, 20))
def test_cuts_cover_every_row_once(sizes, most):
    found = list(cuts(np.array(sizes, np.int64), most))
    assert [row for start, stop in found for row in range(start, stop)] == list(range(len(sizes)))
    for start, stop in found:
        assert sum(sizes[start:stop]) <= most or stop - start == 1
        if stop < len(sizes):
            assert sum(sizes[start : stop + 1]) > most


def test_the_stand_in_refuses_what_the_road_does_not_use():
    with pytest.raises(AttributeError, match=r"cudf\.Series\.mean is not among the names"):
        series(TEXTS).mean()
    with pytest.raises(AttributeError, match="not among the names"):
        series(TEXTS).str.upper()
