"""Files that other writers wrote: what pyarrow reads runs and comes out bit-equal; the rest is
refused or fails by name.

tests/data/foreign/README.md says who wrote which file.
"""

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

from headrace.stages.dataset_schema import dataset_schema
from headrace.stages.encode import encode
from headrace.stages.file_checks import refuse_unreadable
from headrace.stages.read import Source, read_slices
from headrace.stages.shards import cut_shards


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
