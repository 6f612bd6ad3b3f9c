"""Very many shards, and very many small files: what is done for each does not grow with them."""

import json
import sqlite3
import statistics
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_support import demo_rows, read_output, tiny, write_dataset_job, write_job

from headrace.flows.waves import WAVES

SHARDS = 3_000


def reports(out):
    files = (out / "_headrace/reports").iterdir()
    found = [json.loads(file.read_text()) for file in files]
    return sorted(found, key=lambda report: report["started"])


def test_many_small_files_become_few_parts(quick, tmp_path):
    """Row 19 of what users report: 500 files of ten rows, and parts near the target."""
    table = demo_rows(5_000)
    (tmp_path / "in").mkdir()
    for at in range(500):
        pq.write_table(table.slice(at * 10, 10), tmp_path / f"in/{at:03}.parquet")
    job = write_dataset_job(tmp_path, model=tiny())
    run = quick.run(job, "--set", "shards.target_rows=2000")
    assert run.rc == 0, run.stderr
    assert run.json["shards"]["total"] == 3
    parts = sorted((tmp_path / "out").glob("*.parquet"))
    assert [pq.read_metadata(part).num_rows for part in parts] == [2_000, 2_000, 1_000]
    assert read_output(tmp_path / "out").select(table.column_names).equals(table)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_three_thousand_shards_take_no_longer_at_the_end(cli, tmp_path, say):
    """Through Prefect, with at most 50 task runs, and Dask; rows 14 and 30 of users' reports."""
    table = demo_rows(SHARDS * 2)
    job = write_job(tmp_path, table, model=tiny(), row_group_size=2, shards={"target_rows": 2})
    run = cli.run(job, prefect=True, timeout=1_500)
    assert run.rc == 0, run.stderr
    assert run.json["shards"]["committed"] == SHARDS
    out = tmp_path / "out"
    assert read_output(out).select(table.column_names).equals(table)
    ends = sorted(part.stat().st_mtime for part in out.glob("*.parquet"))
    third = SHARDS // 3
    first, last = ends[third] - ends[0], ends[-1] - ends[-1 - third]
    say(f"{SHARDS} shards: {first / third * 1e3:.1f} ms each in the first third, "
        f"{last / third * 1e3:.1f} in the last; {run.json['seconds']:.0f} s in all")  # fmt: skip
    assert last < 2 * first
    with sqlite3.connect(Path(cli.env["PREFECT_HOME"]) / "prefect.db") as db:
        ((tasks,),) = db.execute("select count(*) from task_run").fetchall()
    assert tasks <= WAVES


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_worker_s_memory_is_flat_over_two_hundred_shards(cli, tmp_path, say):
    """With a real model. The process's peak so far is in each shard's report."""
    job = write_job(tmp_path, demo_rows(200 * 20), row_group_size=20, shards={"target_rows": 20})
    run = cli.run(job, timeout=800)
    assert run.rc == 0, run.stderr
    peaks = [
        report["device_use"]["peak_memory_bytes"] / 2**20 for report in reports(tmp_path / "out")
    ]
    assert len(peaks) == 200
    early, late = statistics.median(peaks[45:55]), peaks[-1]
    say(f"peak of the worker: {peaks[0]:.0f} MiB at shard 1, {early:.0f} at 50, {late:.0f} at 200")
    assert late < 1.1 * early
