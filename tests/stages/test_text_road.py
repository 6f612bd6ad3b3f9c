import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gpu_support import install

from headrace.schemas.errors import HeadraceError, ShardError
from headrace.schemas.plan import Road, Slice
from headrace.stages import device_texts, text_road
from headrace.stages.device_texts import DeviceTexts
from headrace.stages.model_folder import open_model_folder
from headrace.stages.prepare import HostTexts
from headrace.stages.read import Source
from headrace.stages.text_road import HELD_ALIKE, TextChoice, choose_text_road, open_text_road
from headrace.stages.wordpiece import WordPiece

TEXTS = ["one two three", None, "Ünï", "", "x" * 300, "four"] * 5


@pytest.fixture
def on_cpu(monkeypatch):
    """Let the road take the stand-in for cuDF, with torch on the CPU."""
    install(monkeypatch)
    real = text_road.DeviceTexts
    monkeypatch.setattr(text_road, "DeviceTexts", lambda *args: real(*args[:4], "cpu"))


@pytest.fixture
def choose(tmp_path, make_job, minilm):
    def make(device="cuda", column=None, folder=minilm, **changes):
        column = pa.array(TEXTS, pa.string()) if column is None else column
        table = pa.table({"text": column})
        pq.write_table(table, tmp_path / "a.parquet")
        job = make_job(model__path=str(folder), **{"input__path": str(tmp_path)} | changes)
        source = Source(tmp_path, job.input, table.schema)
        slices = [Slice("a.parquet", 0, 0, table.num_rows)]
        texts = pa.array([text for text in TEXTS if text is not None], pa.large_string())
        model = open_model_folder(job.model)
        return choose_text_road(job, model, source, slices, texts, device)

    return make


@pytest.mark.usefixtures("on_cpu")
def test_text_is_read_and_tokenized_on_the_gpu_where_the_tokens_are_alike(choose):
    assert choose() == TextChoice("cudf", "cudf", HELD_ALIKE)


@pytest.mark.usefixtures("on_cpu")
def test_on_a_cpu_there_is_nothing_to_choose(choose):
    assert choose("cpu") == TextChoice()


def test_without_cudf_the_host_does_it_and_the_plan_says_so(choose):
    assert choose() == TextChoice(reason="cuDF is not installed; see the extra cuda13")


@pytest.mark.usefixtures("on_cpu")
def test_another_tokenizer_stays_on_the_host(choose, tiny_model):
    found = choose(folder=tiny_model)
    assert (found.frame, found.tokenizer) == ("arrow", "tokenizers")
    assert "WordLevel" in found.reason


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"preprocess": [{"python": "tiny_steps:keep"}]}, "python step"),
        ({"input__format": "arrow"}, "the input is arrow"),
        (
            {"preprocess": [{"replace": {"find": "a+", "with": "b", "regex": True}}]},
            "regular expressions",
        ),
        ({"column": pa.array(TEXTS).dictionary_encode()}, "dictionary"),
        ({"column": pa.array(TEXTS, pa.string_view())}, "string_view"),
    ],
    ids=["python", "format", "regex", "dictionary", "view"],
)
def test_what_cudf_does_not_read_is_made_on_the_host_and_tokenized_on_the_gpu(
    choose, changes, words
):
    found = choose(**changes)
    assert (found.frame, found.tokenizer) == ("arrow", "cudf")
    assert words in found.reason


@pytest.mark.usefixtures("on_cpu")
def test_a_tokenizer_that_differs_is_not_taken(choose, monkeypatch):
    real = WordPiece.tokenize

    def wrong(self, text):
        ids, counts = real(self, text)
        return ids + (ids == 2028), counts

    monkeypatch.setattr(WordPiece, "tokenize", wrong)
    found = choose()
    assert (found.frame, found.tokenizer) == ("arrow", "tokenizers")
    assert "rows have other tokens on the GPU" in found.reason


@pytest.mark.usefixtures("on_cpu")
def test_a_step_that_differs_is_done_on_the_host(choose, monkeypatch):
    """As a regular expression that cuDF understands in its own way."""
    real = device_texts._Shard._text
    monkeypatch.setattr(
        device_texts._Shard, "_text", lambda self, frame: real(self, frame).str.slice(1)
    )
    found = choose(preprocess=["strip"])
    assert (found.frame, found.tokenizer) == ("arrow", "cudf")
    assert "texts are made on the host: of a.parquet" in found.reason


@pytest.mark.usefixtures("on_cpu")
def test_a_gpu_that_fails_is_not_taken(choose, monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(WordPiece, "tokenize", fail)
    found = choose()
    assert found.tokenizer == "tokenizers"
    assert "the GPU failed: ['MemoryError in tokenize']" in found.reason


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("error", [ImportError("libcudf.so"), RuntimeError("no driver")])
def test_a_cudf_that_does_not_work_here_is_said(choose, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(text_road, "WordPiece", type("Broken", (WordPiece,), {"__init__": fail}))
    found = choose()
    assert (found.frame, found.tokenizer) == ("arrow", "tokenizers")
    assert "cuDF does not work here" in found.reason


@pytest.mark.usefixtures("on_cpu")
def test_rows_that_vanish_on_the_gpu_are_seen(choose, monkeypatch):
    real = device_texts._Shard._tokenize_on_host
    monkeypatch.setattr(
        device_texts._Shard,
        "_tokenize_on_host",
        lambda self, rows, texts: real(self, rows[1:], texts[1:]),
    )
    assert "other rows have tokens" in choose().reason


@pytest.mark.usefixtures("on_cpu")
def test_a_slice_that_can_not_be_read_is_left_to_its_shard(choose, monkeypatch):
    asked = []

    def fail(*given):
        asked.append(given)
        raise ShardError("a.parquet, row group 0: it can't be read")

    monkeypatch.setattr(text_road, "read_slices", fail)
    assert choose().frame == "cudf"
    assert len(asked) == 1


ROAD = Road(device="cuda", precision="bf16", reason="", tokens_per_s=1.0)


@pytest.fixture
def open_road(tmp_path, make_job, minilm):
    def make(folder=minilm, **changes):
        job = make_job(model__path=str(folder))
        source = Source(tmp_path, job.input, pa.schema([("text", pa.string())]))
        road = ROAD.model_copy(update=changes)
        return open_text_road(job, open_model_folder(job.model), source, road)

    return make


def test_a_plan_of_the_host_s_road_opens_it(open_road):
    assert isinstance(open_road(), HostTexts)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("frame", ["arrow", "cudf"])
def test_a_plan_of_the_gpu_s_road_opens_it(open_road, frame):
    road = open_road(frame=frame, tokenizer="cudf")
    assert isinstance(road, DeviceTexts)
    assert road.reads == (frame == "cudf")


def test_a_worker_without_cudf_does_not_take_a_plan_that_was_made_for_it(open_road):
    with pytest.raises(HeadraceError, match="made for cuDF, and this worker lacks it"):
        open_road(tokenizer="cudf")


@pytest.mark.usefixtures("on_cpu")
def test_a_worker_with_another_model_does_not_take_the_plan(open_road, tiny_model):
    with pytest.raises(HeadraceError, match="WordPiece"):
        open_road(tiny_model, tokenizer="cudf")
