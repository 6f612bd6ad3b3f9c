import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gpu_support import install
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.schemas.errors import JobError, ShardError
from headrace.schemas.plan import Slice
from headrace.stages import device_texts as module
from headrace.stages.device_texts import DeviceTexts
from headrace.stages.model_folder import open_model_folder
from headrace.stages.prepare import host_texts
from headrace.stages.read import Source, read_slices
from headrace.stages.spans import Spans
from headrace.stages.wordpiece import WordPiece, read_spec

DIRTY = [
    "one two three",
    None,
    "",
    "   ",
    "Ünï 🎉 中文",
    "plain, but with punctuation: (it's 3.14%)",
    "x" * 101 + " a word that is too long",
    "[CLS] spelled out [SEP]",
    "  tabs\tand\r\nlines ",
    "a \x00 and a \x7f",
    "UPPER lower",
    "word " * 300,
]
BAD = [b"one", b"bad \xff\xfe byte", None, b"\x80", b"two \xc3"]
STEPS = [
    "strip",
    "lower",
    "collapse_whitespace",
    {"truncate_chars": 60},
    {"replace": {"find": "o", "with": "0"}},
    {"replace": {"find": "[aeiou]+", "with": "-", "regex": True}},
    "drop_empty",
]


@pytest.fixture(autouse=True)
def _cudf(monkeypatch):
    install(monkeypatch)


@dataclasses.dataclass
class Roads:
    """Both roads over one file of three row groups and a cut one."""

    device: DeviceTexts
    table: pa.Table
    slices: list

    def here(self, **changes):
        return dataclasses.replace(self.device, **changes).prepare(self.table, self.slices, Spans())

    def there(self):
        return self.device.host.prepare(self.table, self.slices, Spans())

    def agree(self, **changes):
        """Compare what the model would get of each row. Returns the device's side."""
        here, there = self.here(**changes), self.there()
        assert here.faults == there.faults
        assert rows_of(here, self.device) == rows_of(there, self.device)
        assert here.ragged.lengths.tolist() == there.ragged.lengths.tolist()
        assert here.nulls.tolist() == there.nulls.tolist()
        assert sum(here.tokenized.values()) == here.rows.size
        return here


def rows_of(prepared, road):
    ragged = prepared.ragged
    room = road.host.max_length - ragged.specials.count
    return [
        [
            *ragged.specials.before,
            *np.asarray(ragged.ids)[start : start + min(count, room)].tolist(),
            *ragged.specials.behind,
        ]
        if present
        else None
        for start, count, present in zip(ragged.starts, ragged.counts, ragged.present, strict=True)
    ]


@pytest.fixture(scope="module")
def model(make_job, minilm):
    return open_model_folder(make_job(model__path=str(minilm)).model)


@pytest.fixture
def roads(tmp_path, make_job, minilm, model):
    def make(columns, frame="cudf", **changes):
        table = pa.table(columns)
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=7)
        slices = [Slice("a.parquet", 0, 0, min(7, table.num_rows))]
        if table.num_rows > 7:
            slices.append(Slice("a.parquet", 1, 1, min(14, table.num_rows) - 8))
        known = {"input__path": str(tmp_path), "input__text": table.column_names}
        job = make_job(model__path=str(minilm), **known | changes)
        source = Source(tmp_path, job.input, table.schema)
        device = DeviceTexts(
            host_texts(job, model), source, WordPiece(read_spec(model.path)), frame, "cpu"
        )
        return Roads(device, read_slices(source, slices, job.input.text_columns), slices)

    return make


@pytest.mark.parametrize("frame", ["arrow", "cudf"])
@pytest.mark.parametrize(
    "steps",
    [
        [],
        STEPS,
        [{"fill_null": "nothing"}],
        [{"fill_null": "né"}],
        [{"template": "{a} - {b}"}],
        [{"concat": {"columns": ["b", "a"], "separator": "; "}}, "strip"],
    ],
    ids=["none", "many", "fill_null", "fill_null with an accent", "template", "concat"],
)
def test_each_row_s_tokens_are_those_of_the_host_s_road(roads, steps, frame):
    other = [text and text[::-1] for text in DIRTY]
    found = roads({"a": DIRTY, "b": other}, frame, preprocess=steps).agree()
    assert found.device_faults == {}
    assert min(found.tokenized.values()) > 0
    assert set(found.tokenized) == {"cudf", "tokenizers"}


def test_a_prompt_goes_before_each_text(roads, monkeypatch):
    road = roads({"a": DIRTY})
    host = dataclasses.replace(road.device.host, prompt="query: ")
    road.device = dataclasses.replace(road.device, host=host)
    found = road.agree()
    assert found.ragged.counts[0] > 3


def test_lowercase_lowers_before_the_tokenizer_does(roads):
    # Letters that the host lowers by what stands around them, and a GPU one by one.
    road = roads({"a": ["[CLS] One", "ONE", "Two é", "ΟΔΟΣ ΑΣ"]})
    host = dataclasses.replace(road.device.host, lowercase=True)
    road.device = dataclasses.replace(road.device, host=host)
    road.agree()


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("one two", "cudf"),
        ("", "cudf"),
        ("x" * 100, "cudf"),
        ("x" * 101, "tokenizers"),
        ("one\x01", "tokenizers"),
        ("öne", "tokenizers"),
        ("a [MASK] b", "tokenizers"),
        ("a [mask] b", "cudf"),
    ],
)
def test_only_plain_rows_are_tokenized_on_the_device(roads, text, way):
    assert roads({"a": [text]}).agree().tokenized == {way: 1}


@pytest.mark.parametrize("frame", ["arrow", "cudf"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_bad_byte_costs_its_own_row_only(roads, frame, kind):
    data = pa.large_binary() if kind == pa.large_string() else pa.binary()
    column = pa.array(BAD, data).view(kind)
    found = roads({"a": column, "b": ["same"] * 5}, frame).agree()
    assert set(found.faults) == {1, 3, 4}
    assert found.tokenized["cudf"] == 2


@pytest.mark.parametrize("frame", ["arrow", "cudf"])
@pytest.mark.parametrize("piece_bytes", [1, 40, 10**9])
def test_text_is_worked_on_in_pieces_of_bounded_size(roads, frame, piece_bytes, monkeypatch):
    sizes = []
    buffers = module.text_buffers

    def measured(text):
        data, edges = buffers(text)
        sizes.append((int(data.numel()), len(text)))
        return data, edges

    monkeypatch.setattr(module, "text_buffers", measured)
    roads({"a": DIRTY}, frame).agree(piece_bytes=piece_bytes)
    assert all(size <= piece_bytes or rows == 1 for size, rows in sizes)


def test_small_slices_are_worked_on_together(roads, monkeypatch):
    taken = []
    monkeypatch.setattr(
        module._Shard, "_take_frame", lambda self, rows, frame: taken.append(rows.tolist())
    )
    roads({"a": DIRTY}).here()
    assert taken == [list(range(11))]


def test_a_column_that_a_file_lacks_is_read_by_the_host(roads, tmp_path):
    road = roads({"a": DIRTY[:7], "b": DIRTY[:7]})
    pq.write_table(pa.table({"b": DIRTY[:7]}), tmp_path / "a.parquet")
    road.table = read_slices(road.device.source, road.slices, ["a", "b"])
    found = road.agree()
    assert found.device_faults == {"ValueError in read": 1}
    assert set(found.tokenized) == {"tokenizers"}


def test_a_slice_that_cudf_can_not_read_is_the_host_s_and_the_others_are_not(roads, monkeypatch):
    read = module.read_frame

    def fail_first(file, piece, columns):
        if piece.row_group == 0:
            raise RuntimeError("unsupported codec")
        return read(file, piece, columns)

    monkeypatch.setattr(module, "read_frame", fail_first)
    for piece_bytes in (10, 10**9):
        found = roads({"a": DIRTY}).agree(piece_bytes=piece_bytes)
        assert found.device_faults == {"RuntimeError in read": 1}
        assert found.tokenized["cudf"] == 3
    assert found.ragged.present[:7].sum() == 6


@pytest.mark.parametrize("frame", ["arrow", "cudf"])
@pytest.mark.parametrize("broken", ["join", "own_stream"])
def test_a_shard_that_the_device_has_no_room_for_is_done_on_the_host(
    roads, frame, broken, monkeypatch
):
    def fail(*_):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(module, broken, fail)
    road = roads({"a": DIRTY, "b": DIRTY[::-1]}, frame, preprocess=STEPS)
    found = road.agree()
    assert found.device_faults == {"MemoryError in shard": 1}
    assert set(found.tokenized) == {"tokenizers"}


def test_a_piece_that_can_not_be_measured_sends_the_shard_to_the_host(roads, monkeypatch):
    def fail(*_):
        raise RuntimeError("CUDF failure")
        yield

    monkeypatch.setattr(module, "bounded", fail)
    assert roads({"a": DIRTY}).agree().device_faults == {"RuntimeError in shard": 1}


@pytest.mark.parametrize(
    ("frame", "broken", "stage"),
    [("cudf", "one_text", "preprocess"), ("arrow", "frame_of", "tokenize")],
)
@pytest.mark.parametrize("error", [MemoryError("std::bad_alloc"), RuntimeError("CUDF failure")])
def test_what_fails_on_the_device_is_done_on_the_host_and_counted(
    roads, frame, broken, stage, error, monkeypatch
):
    looked_at = []
    monkeypatch.setattr(module, "end_if_sticky", looked_at.append)

    def fail(*_):
        raise error

    monkeypatch.setattr(module, broken, fail)
    found = roads({"a": DIRTY}, frame).agree()
    assert found.device_faults == {f"{type(error).__name__} in {stage}": 1}
    assert found.tokenized == {"tokenizers": 10}
    assert looked_at == [error]


def test_what_was_done_before_a_fault_counts_once(roads, monkeypatch):
    """The first rows have their tokens when the tokenizer of the others fails."""
    real = module._Shard._tokenize_on_host
    calls = []

    def fail_first(self, rows, texts):
        calls.append(rows.size)
        real(self, rows, texts)
        if len(calls) == 1:
            raise RuntimeError("CUDF failure")

    monkeypatch.setattr(module._Shard, "_tokenize_on_host", fail_first)
    found = roads({"a": DIRTY}).agree()
    assert len(calls) == 2
    assert found.tokenized == {"tokenizers": 10}
    assert found.ragged.ids.numel() == found.ragged.counts.sum()


def test_a_file_that_is_damaged_is_the_shard_s_fault(roads, tmp_path):
    road = roads({"a": DIRTY})
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[4:60] = bytes(56)
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(ShardError, match=r"a\.parquet, row group 0"):
        road.here()


def test_a_step_that_does_not_fit_is_the_job_s_fault(roads):
    with pytest.raises(JobError, match="'nope'"):
        roads({"a": DIRTY}, preprocess=[{"template": "{nope}"}]).here()


def test_there_may_be_no_row(roads):
    for frame in ("arrow", "cudf"):
        found = roads({"a": pa.array([], pa.string())}, frame).agree()
        assert found.tokenized == {}
        assert found.ragged.ids.numel() == 0


LETTERS = st.text("ab[]CLS #\té\x00.,-\u4e2d", max_size=14)


@settings(max_examples=25)
@given(texts=st.lists(LETTERS | st.none() | st.text(max_size=6), min_size=1, max_size=7))
def test_random_texts_have_the_host_s_tokens(texts, model, make_job, minilm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    column = pa.array(texts, pa.string())
    pq.write_table(pa.table({"a": column}), folder / "a.parquet")
    job = make_job(model__path=str(minilm), input__path=str(folder), input__text="a")
    source = Source(folder, job.input, pa.schema([("a", pa.string())]))
    piece = Slice("a.parquet", 0, 0, len(texts))
    wordpiece = WordPiece(read_spec(model.path))
    for frame in ("arrow", "cudf"):
        device = DeviceTexts(host_texts(job, model), source, wordpiece, frame, "cpu")
        Roads(device, pa.table({"a": column}), [piece]).agree()
