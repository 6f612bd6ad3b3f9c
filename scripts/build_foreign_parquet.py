"""Build the Parquet files of tests/data/foreign that writers from PyPI write.

The rows are those of spark-3.5-gzip.parquet, which scripts/build_foreign_spark.py writes. The
writers go into an environment of their own:

    python -m venv /tmp/writers && /tmp/writers/bin/pip install pyarrow pandas \
        fastparquet==2026.9.0 arro3-io==0.9.1 deltalake==1.6.6 chdb==4.4.0 carquet==0.7.2 \
        sling-linux-amd64==1.4.11
    /tmp/writers/bin/python scripts/build_foreign_parquet.py tests/data/foreign
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

SOURCE = "spark-3.5-gzip.parquet"
FLAT = ["id", "text", "at", "day", "flag", "real"]


def fastparquet(table: pa.Table, out: Path) -> None:
    """Python: INT96 and LZ4 (raw) in two row groups."""
    import fastparquet as writer

    frame = table.select(["id", "text", "at", "flag", "real"]).to_pandas()
    frame["at"] = frame["at"].dt.tz_localize(None).astype("datetime64[ns]")
    writer.write(
        str(out / "fastparquet-int96.parquet"),
        frame,
        row_group_offsets=[0, 7],
        compression="LZ4",
        times="int96",
        write_index=False,
    )


def arrow_rs(table: pa.Table, out: Path) -> None:
    """Rust: version 2 pages of a few rows each, delta encodings, Brotli, small row groups."""
    from arro3.io import write_parquet

    write_parquet(
        table,
        out / "arrow-rs-v2-brotli.parquet",
        compression="brotli(5)",
        writer_version="parquet_2_0",
        dictionary_enabled=False,
        column_encoding={
            "id": "delta_binary_packed",
            "text": "delta_byte_array",
            "real": "byte_stream_split",
        },
        data_page_row_count_limit=3,
        write_batch_size=3,
        max_row_group_size=5,
        skip_arrow_metadata=True,
    )


def delta_rs(table: pa.Table, out: Path) -> None:
    """Rust: the data file of a Delta Lake table."""
    from deltalake import write_deltalake

    with tempfile.TemporaryDirectory() as folder:
        write_deltalake(folder, table)
        (part,) = Path(folder).rglob("*.parquet")
        shutil.copyfile(part, out / "delta-rs.parquet")


def clickhouse(_: pa.Table, out: Path) -> None:
    """C++: ClickHouse's own writer, with strings as texts and as bytes."""
    import chdb

    for name, as_text in (("clickhouse", 1), ("clickhouse-bytes", 0)):
        target = out / f"{name}.parquet"
        target.unlink(missing_ok=True)
        chdb.query(
            f"SELECT * FROM file('{out / SOURCE}', Parquet) INTO OUTFILE '{target}' FORMAT Parquet "  # noqa: S608 - our own paths
            f"SETTINGS output_format_parquet_string_as_string = {as_text}"
        )


def carquet(table: pa.Table, out: Path) -> None:
    """C: no statistics, no Arrow schema, the LZ4 of Hadoop, page checksums."""
    import carquet as writer

    writer.write_table(
        table.select(FLAT),
        str(out / "carquet-lz4-hadoop.parquet"),
        compression="lz4_hadoop",
        write_statistics=False,
        store_schema=False,
        row_group_size=5,
    )


def arrow_go(table: pa.Table, out: Path) -> None:
    """Go: arrow-go, as it is built into the command `sling`."""
    import sling_linux_amd64

    binary = Path(next(iter(sling_linux_amd64.__path__)), "bin", "sling-linux-amd64")
    binary.chmod(0o755)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "rows.csv")
        pyarrow.csv.write_csv(table.select(FLAT), source)
        no_net = {"SLING_DISABLE_TELEMETRY": "true", "SLING_DUCKDB_COMPUTE": "false"}
        subprocess.run(  # noqa: S603 - our own arguments
            [
                str(binary),
                "run",
                f"--src-stream=file://{source}",
                f"--tgt-object=file://{out / 'arrow-go.parquet'}",
            ],
            env={**os.environ, **no_net, "HOME": folder, "SLING_HOME_DIR": folder},
            check=True,
        )


def main() -> None:
    """Write every file."""
    out = Path(sys.argv[1]).absolute()
    table = pq.read_table(out / SOURCE)
    for write in (fastparquet, arrow_rs, delta_rs, clickhouse, carquet, arrow_go):
        write(table, out)


if __name__ == "__main__":
    main()
