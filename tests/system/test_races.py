"""Two runs on one output folder at once, and a scheduler that dies: nothing lost, nothing twice."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_support import demo_rows, free_port, listens, read_output, tiny, wait_for, write_job

from headrace.schemas import layout

ROWS = 300
SHARDS = {"target_rows": 20}
BOTH = 180
DASK = str(Path(sys.executable).with_name("dask"))


def ends(*runs):
    """Wait for runs that go on at the same time. Returns their exit codes and what they said."""
    said = [run.communicate(timeout=BOTH) for run in runs]
    return [(run.returncode, *texts) for run, texts in zip(runs, said, strict=True)]


def assert_once(table, out, names, read):
    """The output is the input, row by row, whoever wrote which part."""
    assert len(names) == ROWS // SHARDS["target_rows"]
    parts = [read(name) for name in sorted(names)]
    assert pa.concat_tables(parts).select(table.column_names).equals(table)


@pytest.mark.timeout(300)
def test_the_same_job_twice_at_once_is_done_once(cli, tmp_path):
    """Both draw the plan, or one takes the other's; both compute, and the first writer wins."""
    table = demo_rows(ROWS)
    job = write_job(tmp_path, table, model=tiny(sleep_s=0.05), shards=SHARDS)
    found = ends(cli.start(job), cli.start(job))
    assert [code for code, *_ in found] == [0, 0], found
    for _, stdout, _ in found:
        assert json.loads(stdout)["rows"] == {"in": ROWS, "good": ROWS, "null": 0, "errors": 0}
    out = tmp_path / "out"
    names = [path.name for path in out.iterdir() if not path.name.startswith("_")]
    assert_once(table, out, names, lambda name: pq.read_table(out / name, partitioning=None))
    assert (out / layout.SUCCESS).is_file()
    assert list((out / layout.TMP).iterdir()) == []
    assert cli("verify", out).rc == 0


@pytest.mark.timeout(300)
def test_two_jobs_at_once_on_one_folder_are_not_mixed(cli, tmp_path):
    """One has the folder, whichever it is; the other is refused."""
    jobs = [
        write_job(tmp_path, demo_rows(ROWS), model=tiny(sleep_s=0.05, scale=scale), name=name,
                  shards=SHARDS)
        for name, scale in (("one", 1.0), ("two", 2.0))
    ]  # fmt: skip
    found = ends(*(cli.start(job) for job in jobs))
    assert sorted(code for code, *_ in found) == [0, 5], found
    (refused,) = (stdout for code, stdout, _ in found if code == 5)
    assert "belongs to another run" in json.loads(refused)["error"]
    assert read_output(tmp_path / "out").num_rows == ROWS
    assert cli("verify", "out").rc == 0


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("s3")
def test_on_a_store_too_the_same_job_twice_at_once_is_done_once(cli, tmp_path, s3):
    table, out = demo_rows(ROWS), s3.folder()
    output = {"path": out, "storage_options": s3.options}
    job = write_job(tmp_path, table, model=tiny(sleep_s=0.05), shards=SHARDS, output=output)
    found = ends(cli.start(job), cli.start(job))
    assert [code for code, *_ in found] == [0, 0], found
    root = out.removeprefix("s3://")
    below = [path.removeprefix(f"{root}/") for path in s3.fs.find(root)]
    names = [name for name in below if not name.startswith("_")]
    assert_once(table, out, names, lambda name: pq.read_table(f"{root}/{name}", filesystem=s3.fs))
    checked = cli("verify", out, "--storage-options", json.dumps(s3.options))
    assert checked.rc == 0, checked.stdout


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_scheduler_that_dies_ends_the_run_and_the_next_goes_on(cli, tmp_path, how):
    table = demo_rows(ROWS)
    job = write_job(tmp_path, table, model=tiny(sleep_s=0.2), shards=SHARDS)
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = subprocess.Popen(
        [DASK, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
        cwd=cli.folder,
        env=cli.env,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: listens(port))
    worker = subprocess.Popen(
        [DASK, "worker", address, "--no-dashboard", "--death-timeout", "30"],
        cwd=cli.folder,
        env=cli.env,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    out = tmp_path / "out"
    running = cli.start(job, "--scheduler", address)
    try:
        wait_for(lambda: len(list(out.glob("part-*"))) >= 3 or running.poll() is not None)
        os.kill(scheduler.pid, how)
        ((code, stdout, stderr),) = ends(running)
    finally:
        scheduler.kill()
        scheduler.wait()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    assert code == 1, stdout + stderr
    assert "the Dask scheduler" in json.loads(stdout)["error"]
    kept = {path.name: path.read_bytes() for path in out.glob("part-*")}
    assert 3 <= len(kept) < ROWS // SHARDS["target_rows"]
    again = cli.run(job)
    assert again.rc == 0, again.stderr
    assert {name: (out / name).read_bytes() for name in kept} == kept
    assert read_output(out).select(table.column_names).equals(table)
    assert cli("verify", out).rc == 0
