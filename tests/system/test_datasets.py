"""Datasets as they are found: files that differ, empty ones, odd names, other formats."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_support import read_output, tiny, write_dataset_job

NARROW = {
    "text": ["one", "two"],
    "n": pa.array([1, None], pa.int32()),
    "kind": pa.array(["a", "b"]).dictionary_encode(),
    "note": pa.array([None, None], pa.string()),
    "only a": [True, False],
}
WIDE = {
    "note": ["x", "y"],
    "kind": ["c", None],
    "n": pa.array([2**53 + 1, -1], pa.int64()),
    "text": pa.array(["three", None], pa.large_string()),
}
NULLS = {"text": pa.nulls(2), "n": pa.nulls(2), "note": pa.nulls(2)}


def write(folder, **tables):
    """Write tables as Parquet files by these names."""
    (folder / "in").mkdir()
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"in/{name}.parquet")


@pytest.mark.parametrize("names", ["abc", "cba"])
def test_files_that_differ_are_one_dataset_in_any_order(tmp_path, quick, names):
    write(tmp_path, **dict(zip(names, (NARROW, WIDE, NULLS), strict=True)))
    run = quick.run(write_dataset_job(tmp_path, model=tiny()), "--set", "shards.target_rows=3")
    assert run.rc == 0, run.stderr
    out = read_output(tmp_path / "out")
    rows = {
        "abc": [(1, "a", "one"), (None, "b", "two"), (2**53 + 1, "c", "three"), (-1, None, None)]
    }["abc"]
    blank = [(None, None, None)] * 2
    got = list(zip(*(out[name].to_pylist() for name in ("n", "kind", "text")), strict=True))
    assert got == (rows + blank if names == "abc" else blank + rows[2:] + rows[:2])
    types = {name: str(out.schema.field(name).type) for name in ("text", "n", "kind", "note")}
    assert types == {"text": "large_string", "n": "int64", "kind": "string", "note": "string"}
    assert out["only a"].null_count == 4
    assert run.json["rows"] == {"in": 6, "good": 3, "null": 3, "errors": 0}
    assert quick("verify", "out").rc == 0


def test_types_that_would_lose_something_are_refused_with_both_files(tmp_path, quick):
    write(tmp_path, a={"text": ["x"], "n": [1]}, b={"text": ["x"], "n": [0.5]})
    run = quick.run(write_dataset_job(tmp_path, model=tiny()))
    assert run.rc == 2
    for piece in ("'n'", "int64 in", "a.parquet", "double in", "b.parquet", "Convert one"):
        assert piece in run.stderr
    assert not (tmp_path / "out").exists()


def test_empty_files_empty_row_groups_and_a_remainder_of_one(tmp_path, quick):
    columns = {"text": [f"text {at}" for at in range(17)]}
    write(tmp_path, a={"text": pa.array([], pa.string())}, b=columns, c={"text": pa.nulls(0)})
    with pq.ParquetWriter(tmp_path / "in/d.parquet", pa.schema([("text", pa.string())])) as writer:
        for rows in (0, 2, 0):
            writer.write_table(pa.table({"text": ["x"] * rows}, schema=writer.schema))
    run = quick.run(write_dataset_job(tmp_path, model=tiny()), "--set", "shards.target_rows=8")
    assert run.rc == 0, run.stderr
    out = read_output(tmp_path / "out")
    assert out["text"].to_pylist() == [*columns["text"], "x", "x"]
    assert out["embedding"].null_count == 0
    assert quick("verify", "out").rc == 0


def test_a_dataset_without_any_row(tmp_path, quick):
    write(tmp_path, a={"text": pa.array([], pa.string()), "id": pa.array([], pa.int64())})
    run = quick.run(write_dataset_job(tmp_path, model=tiny()))
    assert run.rc == 0, run.stderr
    out = read_output(tmp_path / "out")
    assert out.num_rows == 0
    assert out.column_names == ["text", "id", "embedding", "headrace_error"]
    assert quick("verify", "out").rc == 0


def test_many_columns_and_odd_names(tmp_path, quick):
    odd = {
        "a.b": [1, 2],
        "a": [{"b": 3}, None],
        "with space": [4, 5],
        "": [6, 7],
        "ä/\n\"'": [8, 9],
    }
    many = {f"c{at}": [at, None] for at in range(200)}
    columns = {"the.text": ["one", "two"], "the": [{"text": "no"}, None], **odd, **many}
    write(tmp_path, a=columns)
    job = write_dataset_job(tmp_path, model=tiny(), text="the.text")
    run = quick.run(job)
    assert run.rc == 0, run.stderr
    out = read_output(tmp_path / "out")
    assert out.column_names == [*columns, "embedding", "headrace_error"]
    assert out.select(list(columns)).equals(pa.table(columns))
    first = tmp_path / "in/a.parquet"
    pq.write_table(pa.table([["x"], ["y"]], names=["the.text", "the.text"]), first)
    again = quick.run(job, "--set", "output.path=other")
    assert again.rc == 2
    assert "more than once: ['the.text']" in again.stderr
    assert "a.parquet" in again.stderr


def test_hive_folders_stay_text(tmp_path, quick):
    folders = ["day=01/to=a%2Fb", "day=1/to=100%25", "day=__HIVE_DEFAULT_PARTITION__/to=%C3%BC"]
    for folder in folders:
        (tmp_path / "in" / folder).mkdir(parents=True)
        pq.write_table(pa.table({"text": ["a"]}), tmp_path / "in" / folder / "x.parquet")
    run = quick.run(write_dataset_job(tmp_path, model=tiny()))
    assert run.rc == 0, run.stderr
    out = read_output(tmp_path / "out")
    pairs = zip(out["day"].to_pylist(), out["to"].to_pylist(), strict=True)
    assert sorted(pairs, key=str) == [("01", "a/b"), ("1", "100%"), (None, "ü")]
    assert out.schema.field("day").type == pa.string()


CSV = b'id,text,score\n007,"one, ""two""\nlines",1.5\n008,,\n009,\xff,2\n'
JSONL = (
    b'{"id": 7, "text": "one", "at": "2024-01-01"}\n'
    b'{"id": 8, "text": null}\n{"id": 9, "text": "bad\\ud800"}\n'
)


def test_csv(tmp_path, quick):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_bytes(CSV)
    (tmp_path / "in/b.csv").write_bytes(b"text,id\nlast,010\n")
    job = write_dataset_job(tmp_path, model=tiny(), format="csv", types={"score": "float64"})
    run = quick.run(job, "--set", "errors.max_ratio=1", "--set", "shards.target_rows=2")
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 4, "good": 2, "null": 1, "errors": 1}
    out = read_output(tmp_path / "out")
    assert out["id"].to_pylist() == ["007", "008", "009", "010"]
    assert out["score"].to_pylist() == [1.5, None, 2.0, None]
    texts = out["text"].cast(pa.binary()).to_pylist()
    assert texts == [b'one, "two"\nlines', None, b"\xff", b"last"]
    assert out["headrace_error"][2].as_py() == "UnicodeDecodeError in preprocess"
    assert quick("verify", "out").rc == 0
    # Its content is its identity: another byte is another input.
    (tmp_path / "in/b.csv").write_bytes(b"text,id\nLast,010\n")
    assert quick.run(job).rc == 5


def test_json_lines(tmp_path, quick):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_bytes(JSONL)
    run = quick.run(write_dataset_job(tmp_path, model=tiny(), format="jsonl"))
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 3, "good": 1, "null": 1, "errors": 1}
    out = read_output(tmp_path / "out")
    assert out["id"].to_pylist() == [7, 8, 9]
    assert out["at"].to_pylist() == ["2024-01-01", None, None]
    assert quick("verify", "out").rc == 0


def test_arrow_files(tmp_path, quick):
    (tmp_path / "in").mkdir()
    table = pa.table({"text": ["one", None, "three"], "u": pa.array([1, 2, 2**63], pa.uint64())})
    with pa.ipc.new_file(tmp_path / "in/a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    run = quick.run(write_dataset_job(tmp_path, model=tiny(), format="arrow"))
    assert run.rc == 0, run.stderr
    assert read_output(tmp_path / "out").select(["text", "u"]).equals(table)
    assert quick("verify", "out").rc == 0
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    table = pa.table({"text": ["one"], "either": union})
    with pa.ipc.new_file(tmp_path / "in/a.arrow", table.schema) as writer:
        writer.write_table(table)
    refused = quick.run(tmp_path / "job.yaml", "--set", "output.path=other")
    assert refused.rc == 2
    assert "column 'either' of type sparse_union" in refused.stderr


def test_bytes_as_text(tmp_path, quick):
    write(tmp_path, a={"text": pa.array([b"one", b"\xff", None])})
    job = write_dataset_job(tmp_path, model=tiny())
    refused = quick.run(job)
    assert refused.rc == 2
    assert "input.binary_as_text: true" in refused.stderr
    run = quick.run(job, "--set", "input.binary_as_text=true", "--set", "errors.max_ratio=1")
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 3, "good": 1, "null": 1, "errors": 1}
    assert read_output(tmp_path / "out")["text"].to_pylist() == [b"one", b"\xff", None]


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"a,b\n1\n", {"format": "csv"}, "Expected 2 columns, got 1"),
        (b"{}\nnull\n", {"format": "jsonl"}, "one JSON object a line"),
        (b"\x1f\x8b", {"format": "csv"}, "decompress it first"),
        (b"text\nx\n", {"format": "csv", "types": {"text": "strin"}}, "an Arrow type for column"),
        (b"text\nx\n", {"format": "arrow"}, "an Arrow IPC file"),
        (b"text\nx\n", {}, "not"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, quick, content, options, words):
    (tmp_path / "in").mkdir()
    suffix = options.get("format", "parquet")
    (tmp_path / f"in/a.{suffix}").write_bytes(content)
    run = quick.run(write_dataset_job(tmp_path, model=tiny(), **options))
    assert run.rc == 2
    assert words in run.stderr
    assert f"a.{suffix}" in run.stderr or "input.types" in run.stderr
    assert json.loads(run.stdout)["exit_code"] == 2
    assert not (tmp_path / "out").exists()
