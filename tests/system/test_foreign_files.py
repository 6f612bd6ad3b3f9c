"""Files that other writers wrote: what pyarrow reads runs and comes out bit-equal; the rest is
refused or fails by name.

tests/data/foreign/README.md says who wrote which file.
"""

import re
import shutil

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_support import demo_rows, read_output, tiny, write_job
from foreign_support import (
    FOREIGN,
    PARTITIONS,
    encrypt,
    foreign_files,
    has_text,
    rewrite_footer,
    spoil,
    varint,
)

from headrace.flows.job_file import load_job
from headrace.schemas.errors import JobError
from headrace.stages.dataset_schema import dataset_schema
from headrace.stages.encode import encode
from headrace.stages.file_checks import refuse_unreadable
from headrace.stages.read import Source, read_slices
from headrace.stages.shards import cut_shards
from headrace.stages.survey import survey


def described(schema):
    """A schema as plain data: names inside lists and metadata too, where equality is lax."""

    def field(each):
        kind = each.type
        inner = [kind.field(at) for at in range(kind.num_fields)]
        return each.name, str(kind), each.nullable, each.metadata or {}, [*map(field, inner)]

    return [field(each) for each in schema], schema.metadata


def decoded(column):
    """A column without its dictionaries, which may differ from chunk to chunk."""
    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column


def same(left, right):
    """Bit-equal in schema, metadata, nulls and values, whatever the chunks."""
    left.validate(full=True)
    assert described(left.schema) == described(right.schema)
    for name in right.column_names:
        assert decoded(left.column(name)).equals(decoded(right.column(name))), name


@pytest.fixture
def pass_through(tmp_path, footers_of, make_job, make_report):
    """Take files through the steps of a run that touch kept columns; return what comes out."""

    def run(path, target_rows=5):
        base, footers = footers_of(path)
        schema = dataset_schema(footers)
        refuse_unreadable(footers, schema.names)
        job = make_job(input__path=str(path), shards__target_rows=target_rows)
        source = Source(base, job.input, schema)
        parts = []
        for shard in cut_shards(footers, job.shards, None, "fingerprint"):
            table = read_slices(source, shard.slices, schema.names)
            part = encode(table, tmp_path, "zstd", make_report())
            parts.append(pq.read_table(part, partitioning=None))
            assert parts[-1].num_rows == shard.rows
        return pa.concat_tables(parts)

    return run


@pytest.mark.parametrize("target_rows", [5, 10_000])
@pytest.mark.parametrize("file", foreign_files(), ids=lambda file: file.stem)
def test_a_foreign_file_comes_out_as_pyarrow_reads_it(pass_through, file, target_rows):
    same(pass_through(file, target_rows), pq.read_table(file, partitioning=None))


def test_the_readme_names_every_file_and_they_are_small():
    page = (FOREIGN / "README.md").read_text()
    stems = [file.stem for file in FOREIGN.glob("*.parquet") if "impala" not in file.stem]
    assert all(f"`{stem}`" in page or f"`-{stem.rpartition('-')[2]}`" in page for stem in stems)
    assert sum(file.stat().st_size for file in FOREIGN.rglob("*.parquet")) < 300_000


PYARROW = {
    "int96": {"use_deprecated_int96_timestamps": True},
    "v2 pages": {"data_page_version": "2.0", "version": "2.6"},
    "version 1.0": {"version": "1.0", "store_schema": False},
    "no statistics": {"write_statistics": False},
    "page index, checksums": {"write_page_index": True, "write_page_checksum": True},
    "old lists": {"use_compliant_nested_type": False, "store_schema": False},
    "no Arrow schema": {"store_schema": False},
    "row groups of one row": {"row_group_size": 1},
    "small dictionaries": {"dictionary_pagesize_limit": 4},
    "no dictionaries, small pages": {"use_dictionary": False, "data_page_size": 16},
    "delta and split encodings": {
        "use_dictionary": False,
        "column_encoding": {
            "id": "DELTA_BINARY_PACKED",
            "text": "DELTA_BYTE_ARRAY",
            "note": "DELTA_LENGTH_BYTE_ARRAY",
            "real": "BYTE_STREAM_SPLIT",
        },
    },
    **{
        f"codec {name}": {"compression": name}
        for name in ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
    },
}


def our_table():
    """Make 20 rows with lists, maps, times and nulls."""
    source = pq.read_table(FOREIGN / "spark-3.5-gzip.parquet").replace_schema_metadata(None)
    table = pa.concat_tables([source, source.slice(0, 8)])
    return table.append_column("note", pa.array([f"note {at}" for at in range(20)]))


@pytest.mark.parametrize("options", PYARROW.values(), ids=PYARROW)
def test_whatever_options_pyarrow_wrote_with(pass_through, tmp_path, options):
    file = tmp_path / "in.parquet"
    pq.write_table(our_table(), file, **{"row_group_size": 7} | options)
    same(pass_through(file), pq.read_table(file))


POLARS = {codec: {"compression": codec} for codec in ("uncompressed", "snappy", "gzip", "zstd")} | {
    "lz4 raw": {"compression": "lz4"},
    "brotli": {"compression": "brotli"},
    "no statistics": {"statistics": False, "row_group_size": 3, "data_page_size": 64},
}


@pytest.mark.parametrize("options", POLARS.values(), ids=POLARS)
def test_whatever_options_polars_wrote_with(pass_through, tmp_path, options):
    """Its writer is in Rust, and its own: not that of arrow-rs."""
    file = tmp_path / "in.parquet"
    frame = pl.from_arrow(our_table().drop_columns(["counts"]))
    frame.with_columns(pl.col("text").cast(pl.Categorical).alias("kind")).write_parquet(
        file, **options
    )
    assert b"Polars" in file.read_bytes()
    same(pass_through(file), pq.read_table(file))


@pytest.mark.parametrize("version", ["V1", "V2"])
@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "lz4_raw", "brotli"])
def test_whatever_options_duckdb_wrote_with(pass_through, tmp_path, version, codec):
    file = tmp_path / "in.parquet"
    table = our_table()
    with duckdb.connect() as connection:
        connection.register("rows", table)
        connection.execute(
            f"""COPY (SELECT *, uuid() AS u, id::HUGEINT AS h, INTERVAL 1 DAY AS i, 'a'::BLOB AS b,
            [[id]] AS nested FROM rows) TO '{file}'
            (FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version}, ROW_GROUP_SIZE 8)"""
        )
    assert b"DuckDB" in file.read_bytes()
    same(pass_through(file), pq.read_table(file))


def job_over(tmp_path, path, **sections):
    """Write a job over files that are there already."""
    job = write_job(tmp_path, demo_rows(1), model=tiny(), **sections)
    return job, ("--set", f"input.path={path}")


def copied(tmp_path, files):
    """Put files into one folder, in their order."""
    (tmp_path / "in").mkdir()
    for at, file in enumerate(files):
        shutil.copyfile(file, tmp_path / "in" / f"{at:02}-{file.name}")
    return tmp_path / "in"


def of_one_kind(file):
    """Whether all columns but those of this file's own agree with the others' of that name."""
    kinds = {field.name: str(field.type) for field in pq.read_schema(file)}
    return kinds.get("at", "timestamp[us, tz=UTC]").endswith("UTC]") and "arrow-go" not in file.name


def test_all_writers_files_in_one_dataset(tmp_path, quick):
    """Some have a column less, or INT32 for INT64: one schema holds all."""
    files = [file for file in foreign_files() if has_text(file) and of_one_kind(file)]
    assert len(files) > 10
    path = copied(tmp_path, files)
    pl.DataFrame({"id": [1, 2], "text": ["a", None]}).write_parquet(path / "90-polars.parquet")
    with duckdb.connect() as connection:
        target = path / "91-duckdb.parquet"
        connection.execute(f"COPY (SELECT 1::INT AS id, 'b' AS text) TO '{target}'")
    files = [*files, path / "90-polars.parquet", path / "91-duckdb.parquet"]
    job, over = job_over(tmp_path, path, output={"path": "out", "columns": ["id", "text"]})
    run = quick.run(job, *over, "--set", "shards.target_rows=1000")
    assert run.rc == 0, run.stderr
    given = [pq.read_table(file, columns=["id", "text"]) for file in files]
    rows = [row for table in given for row in table.to_pylist()]
    assert run.json["rows"]["in"] == len(rows)
    assert read_output(tmp_path / "out").select(["id", "text"]).to_pylist() == rows
    assert quick("verify", "out").rc == 0


MODERN = ("spark-3.5-gzip", "spark-3.5-v2-zstd", "spark-3.5-lz4-raw", "spark-4-bloom-split")
DATASETS = {
    "lists, maps and structs": [*MODERN, "arrow-rs-v2-brotli", "delta-rs"],
    "INT96 and old lists": ["spark-3.5-legacy", "spark-3.5-lz4-hadoop"],
    "Hive": ["hive-2.3"],
}


@pytest.mark.parametrize("names", DATASETS.values(), ids=DATASETS)
def test_every_column_comes_out_of_the_real_command_bit_equal(tmp_path, quick, names):
    files = [FOREIGN / f"{name}.parquet" for name in names]
    job, over = job_over(tmp_path, copied(tmp_path, files))
    run = quick.run(job, *over, "--set", "shards.target_rows=20")
    assert run.rc == 0, run.stderr
    given = pa.concat_tables([pq.read_table(file) for file in files])
    same(read_output(tmp_path / "out").select(given.column_names), given)
    assert quick("verify", "out").rc == 0


def test_the_folders_that_spark_makes_of_odd_values(tmp_path, quick):
    job, over = job_over(tmp_path, PARTITIONS)
    run = quick.run(job, *over)
    assert run.rc == 0, run.stderr
    rows = read_output(tmp_path / "out").sort_by("id").select(["id", "text", "city"]).to_pylist()
    cities = ["plain", "São Paulo", "a/b=c", "100%", None, None]
    assert rows == [{"id": at, "text": f"row {at}", "city": city} for at, city in enumerate(cities)]


def test_text_that_is_only_bytes_needs_a_word_in_the_job(tmp_path, quick):
    job, over = job_over(tmp_path, FOREIGN / "clickhouse-bytes.parquet")
    run = quick.run(job, *over)
    assert run.rc == 2
    assert "expected a text column, got 'text' of type binary" in run.stderr
    assert not (tmp_path / "out").exists()


def text_table(rows=300):
    return pa.table({"id": range(rows), "text": [f"text {at}" for at in range(rows)]})


def _lzo(file):
    pq.write_table(text_table(), file, row_group_size=100, compression="snappy")
    rewrite_footer(file, b"text\x15\x02\x16", b"text\x15\x06\x16")


def _codec(file):
    pq.write_table(text_table(), file, row_group_size=100, compression="snappy")
    rewrite_footer(file, b"text\x15\x02\x16", b"text\x15\x12\x16")


def _encoding(file):
    pq.write_table(text_table(), file, row_group_size=100, use_dictionary=False)
    plain = b"\x19\x25\x06\x00\x19\x18\x04text"  # RLE, PLAIN
    rewrite_footer(file, plain, plain.replace(b"\x00", b"\x14"))


def _outside(file):
    pq.write_table(text_table(), file, row_group_size=100, use_dictionary=False)
    place = pq.read_metadata(file).row_group(0).column(1).data_page_offset
    rewrite_footer(file, b"\x26" + varint(place), b"\x26" + varint(10**7))


def _rows(file):
    pq.write_table(text_table(), file, row_group_size=100)
    rewrite_footer(file, b"\x16" + varint(300) + b"\x19", b"\x16" + varint(301) + b"\x19")


REFUSED = {
    "LZO": (_lzo, ", row group 0, column 'text': it is compressed with LZO, which"),
    "a codec of the future": (_codec, ", row group 0, column 'text': it is compressed with codec"),
    "an encoding of the future": (_encoding, ", row group 0, column 'text': it has the encoding"),
    "bytes outside of the file": (_outside, ", row group 0, column 'text': its bytes 10,000,000"),
    "rows that don't add up": (_rows, ": its footer says 301 rows, its 3 row groups hold 300"),
    "an encrypted column": (
        lambda file: encrypt(text_table(), file, plain_footer=True),
        ", row group 0, column 'text': it is encrypted",
    ),
    "an encrypted footer": (
        lambda file: encrypt(text_table(), file, plain_footer=False),
        " (its footer is encrypted",
    ),
}


@pytest.fixture
def refused(tmp_path):
    """Write a good file, a bad one, and a job over both."""

    def make(kind):
        spoilt, said = REFUSED[kind]
        (tmp_path / "in").mkdir()
        pq.write_table(text_table(), tmp_path / "in" / "a.parquet")
        spoilt(tmp_path / "in" / "b.parquet")
        return job_over(tmp_path, tmp_path / "in"), f"{tmp_path / 'in' / 'b.parquet'}{said}"

    return make


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_footer_shows_to_be_unreadable_is_refused(refused, kind):
    (job, (_, override)), said = refused(kind)
    with pytest.raises(JobError, match=re.escape(said)):
        survey(load_job(job, [override]))


@pytest.mark.parametrize("kind", ["LZO", "an encrypted column"])
def test_the_command_refuses_at_once_and_leaves_nothing(tmp_path, quick, refused, kind):
    (job, over), said = refused(kind)
    run = quick.run(job, *over)
    assert run.rc == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "out").exists()


def test_a_column_that_the_job_does_not_read_may_be_encrypted(tmp_path, quick):
    table = text_table(50).append_column("secret", pa.array(["x"] * 50))
    encrypt(table, tmp_path / "sealed.parquet", plain_footer=True, columns=["secret"])
    output = {"path": "out", "columns": ["id"]}
    job, over = job_over(tmp_path, tmp_path / "sealed.parquet", output=output)
    run = quick.run(job, *over)
    assert run.rc == 0, run.stderr
    assert read_output(tmp_path / "out")["id"].to_pylist() == list(range(50))


def test_damaged_pages_fail_their_shards_and_a_restored_file_completes(tmp_path, quick):
    """Four shards of two files: a flipped bit, a hole of zeros, a spoilt header, and a good one."""
    (tmp_path / "in").mkdir()
    files = [tmp_path / "in" / name for name in ("a.parquet", "b.parquet")]
    for file in files:
        pq.write_table(text_table(200), file, row_group_size=100, write_page_checksum=True)
    whole = [file.read_bytes() for file in files]
    spoil(files[0], 0, "text", "zeros")
    spoil(files[0], 1, "id", "flip")
    spoil(files[1], 1, "text", "header")
    job, over = job_over(tmp_path, tmp_path / "in")
    run = quick.run(job, *over)
    assert run.rc == 3, run.stderr
    failures = dict(sorted(run.json["failures"].items()))
    assert [name[:12] for name in failures] == ["part-0000000", "part-0000001", "part-0000003"]
    places = [f"{files[0]}, row group 0", f"{files[0]}, row group 1", f"{files[1]}, row group 1"]
    for why, place in zip(failures.values(), places, strict=True):
        assert why.startswith(f"{place}: it can't be read (")
        assert why.endswith("(1 attempt)")
        assert "text 1" not in why
    assert run.json["shards"]["committed"] == 1
    shown = quick("report", "out").stderr.split()
    assert all(f"{name}:" in shown for name in failures)
    verified = quick("verify", "out", "--json")
    assert verified.rc == 6
    assert [fault.partition(":")[0] for fault in verified.json["faults"]] == list(failures)

    for file, content in zip(files, whole, strict=True):
        file.write_bytes(content)
    again = quick.run(job, *over)
    assert again.rc == 0, again.stderr
    assert again.json["shards"]["skipped"] == 1
    assert again.json["rows"]["in"] == 400
    given = pa.concat_tables([pq.read_table(file) for file in files])
    same(read_output(tmp_path / "out").select(["id", "text"]), given)
    assert quick("verify", "out").rc == 0
