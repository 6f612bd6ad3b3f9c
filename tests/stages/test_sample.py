import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_support import spoil

from headrace.schemas.errors import JobError
from headrace.schemas.job import InputSpec
from headrace.schemas.plan import Shard, Slice
from headrace.stages.read import Source
from headrace.stages.sample import ROWS, SLICES, sample_slices, sample_texts

SCHEMA = pa.schema([("text", pa.string())])


def source(folder, schema):
    return Source(folder, InputSpec(path=str(folder), text="text"), schema)


def shards(*counts):
    pieces = [[Slice(f"{at}", at, 0, 10) for at in range(count)] for count in counts]
    return [Shard(index, "id", tuple(each)) for index, each in enumerate(pieces)]


def test_slices_are_spread_from_the_first_to_the_last():
    everything = [piece for shard in shards(50, 51) for piece in shard.slices]
    chosen = sample_slices(shards(50, 51))
    assert len(chosen) == SLICES
    assert (chosen[0], chosen[-1]) == (everything[0], everything[-1])


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_few_slices_are_all_taken_once(count):
    assert sample_slices(shards(count)) == list(shards(count)[0].slices)


def test_nothing_gives_no_slice():
    assert sample_slices([]) == []
    assert sample_slices(shards(0)) == []


@pytest.fixture
def write(tmp_path):
    def make(values):
        pq.write_table(pa.table({"text": pa.array(values, pa.string())}), tmp_path / "a.parquet")
        return tmp_path

    return make


def test_a_small_input_is_read_whole_without_nulls_and_faults(tmp_path):
    raw = pa.array([b"one", None, b"\xff", b"", b"two"]).view(pa.string())
    pq.write_table(pa.table({"text": raw}), tmp_path / "a.parquet")
    texts = sample_texts(source(tmp_path, SCHEMA), [Slice("a.parquet", 0, 0, 5)], ["text"])
    assert texts.type == pa.large_string()
    assert texts.to_pylist() == ["one", "", "two"]


def test_a_large_input_is_read_in_even_steps(write):
    folder = write([str(at) for at in range(3 * ROWS)])
    piece = Slice("a.parquet", 0, 0, 3 * ROWS)
    texts = sample_texts(source(folder, SCHEMA), [piece], ["text"]).to_pylist()
    assert texts == [str(at) for at in range(0, 3 * ROWS, 3)]


def test_several_slices_share_the_sample(write):
    folder = write([str(at) for at in range(2 * ROWS)])
    pieces = [Slice("a.parquet", 0, 0, ROWS), Slice("a.parquet", 0, ROWS, ROWS)]
    texts = sample_texts(source(folder, SCHEMA), pieces, ["text"])
    assert len(texts) == ROWS
    assert {int(text) >= ROWS for text in texts.to_pylist()} == {True, False}


def test_no_slice_gives_no_text(tmp_path):
    assert sample_texts(source(tmp_path, SCHEMA), [], ["text"]).to_pylist() == []


def test_columns_are_joined_as_in_a_run(tmp_path):
    table = pa.table({"a": ["one", None], "b": ["two", None]})
    pq.write_table(table, tmp_path / "a.parquet")
    piece = Slice("a.parquet", 0, 0, 2)
    texts = sample_texts(source(tmp_path, table.schema), [piece], ["b", "a", "b"])
    assert texts.to_pylist() == ["two one two"]


def test_steps_and_prompt_are_those_of_a_run(write, make_job):
    folder = write([" ONE ", None, "  "])
    steps = make_job(preprocess=["strip", "lower", "drop_empty"]).preprocess
    slices = [Slice("a.parquet", 0, 0, 3)]
    texts = sample_texts(source(folder, SCHEMA), slices, ["text"], steps, "query: ")
    assert texts.to_pylist() == ["query: one"]


def test_only_the_sampled_rows_go_through_the_steps(write, make_job):
    """The rows that tiny_steps:clean can't take are not among them."""
    folder = write(["one" if at % 3 == 0 else "zebra" for at in range(3 * ROWS)])
    steps = make_job(preprocess=[{"python": "tiny_steps:refuses_zebras"}]).preprocess
    texts = sample_texts(
        source(folder, SCHEMA), [Slice("a.parquet", 0, 0, 3 * ROWS)], ["text"], steps
    )
    assert texts.to_pylist() == ["one"] * ROWS


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_every_kind_of_text_is_sampled(tmp_path, kind):
    table = pa.table({"text": pa.array([str(at) for at in range(2 * ROWS)], kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    piece = Slice("a.parquet", 0, 0, 2 * ROWS)
    texts = sample_texts(source(tmp_path, table.schema), [piece], ["text"]).to_pylist()
    assert texts == [str(at) for at in range(0, 2 * ROWS, 2)]


@pytest.mark.parametrize("name", ["fails", "nothing", "not_a_function", "drops_rows"])
def test_a_step_that_takes_no_row_is_the_job_s_fault(write, make_job, name):
    folder = write(["one"] * 64)
    steps = make_job(preprocess=[{"python": f"tiny_steps:{name}"}]).preprocess
    with pytest.raises(JobError, match=f"preprocess: .*tiny_steps:{name}") as caught:
        sample_texts(source(folder, SCHEMA), [Slice("a.parquet", 0, 0, 64)], ["text"], steps)
    assert "secret" not in str(caught.value)


def test_without_a_row_only_the_function_s_name_is_tried(tmp_path, make_job):
    steps = make_job(preprocess=[{"python": "tiny_steps:fails"}]).preprocess
    assert sample_texts(source(tmp_path, SCHEMA), [], ["text"], steps).to_pylist() == []
    steps = make_job(preprocess=[{"python": "tiny_steps:nothing"}]).preprocess
    with pytest.raises(JobError, match="tiny_steps:nothing"):
        sample_texts(source(tmp_path, SCHEMA), [], ["text"], steps)


def test_a_damaged_slice_is_left_out_and_the_others_make_the_plan(tmp_path):
    table = pa.table({"text": [str(at) for at in range(30)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    spoil(tmp_path / "a.parquet", 1, "text", "zeros")
    pieces = [Slice("a.parquet", at, 0, 10) for at in range(3)]
    texts = sample_texts(source(tmp_path, SCHEMA), pieces, ["text"]).to_pylist()
    assert texts == [str(at) for at in (*range(10), *range(20, 30))]
    assert sample_texts(source(tmp_path, SCHEMA), pieces[1:2], ["text"]).to_pylist() == []
