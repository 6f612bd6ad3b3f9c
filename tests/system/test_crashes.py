"""The real command line, killed at its n-th operation on the output: the next run mends all."""

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3_proxy
from cli_support import HEADRACE, demo_rows, tiny, write_job

from headrace.schemas import layout

HOOK = Path(__file__).with_name("crash")
ROWS = 60
# Of the many, a few that a run always has: early, in the middle, late. `make test-all` takes all.
SAMPLED = ((3, "before"), (17, "behind"), (40, "before"))
DEADLINE_S = 120


@pytest.fixture
def work(tmp_path):
    """A job of three shards, one row of which is null and one fails."""
    table = demo_rows(ROWS, every=50)
    texts = table["text"].to_pylist()
    texts[5] = None
    table = table.set_column(2, table.schema.field("text"), pa.array(texts))
    model = tiny(raise_on=1997)  # "of"
    return write_job(tmp_path, table, model=model, shards={"target_rows": 20}, row_group_size=10)


def run_killed(cli, job, at, when="before", args=(), **more):
    """Run until operation `at` kills the process that does it. Returns the client's exit code."""
    out = job.parent / "out"
    env = cli.env | {
        "PYTHONPATH": f"{HOOK}:{cli.env['PYTHONPATH']}",
        "CRASH_BELOW": str(out),
        "CRASH_COUNTER": str(job.parent / "counter"),
        "CRASH_AT": str(at),
        "CRASH_WHEN": when,
        **more,
    }
    (job.parent / "counter").unlink(missing_ok=True)
    command = [HEADRACE, "run", str(job), "--no-prefect", "--json", *args]
    run = subprocess.Popen(
        command,
        cwd=cli.folder,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return run.wait(DEADLINE_S)
    finally:
        end_session(run.pid)


def end_session(leader):
    """Kill what is left of a session, workers whose client is gone among it."""
    with_signal = ("pkill", "-KILL", "-s", str(leader))
    subprocess.run(with_signal, check=False)


def operations(job):
    return int((job.parent / "counter").read_text())


def assert_mended(cli, job, read=None):
    """The same command finishes, and the output is as if nothing had happened."""
    run = cli.run(job)
    assert run.rc == 0, run.stderr
    rows = run.json["rows"]
    assert rows["in"] == ROWS == rows["good"] + rows["null"] + rows["errors"]
    assert rows["null"] == 1
    assert rows["errors"] > 0
    out = job.parent / "out"
    output = pa.concat_tables(
        pq.read_table(part, partitioning=None) for part in sorted(out.glob("*.parquet"))
    )
    source = pq.read_table(job.parent / "in.parquet")
    assert output.select(source.column_names).equals(source)
    visible = {path.name for path in out.iterdir() if not path.name.startswith("_")}
    assert len(visible) == 3
    assert all(name.startswith("part-") for name in visible)
    assert (out / layout.SUCCESS).is_file()
    tmp = out / layout.TMP
    assert not tmp.exists() or list(tmp.iterdir()) == []
    checked = cli("verify", out, "--json")
    assert checked.rc == 0, checked.stdout


@pytest.mark.parametrize(("at", "when"), SAMPLED)
def test_a_process_killed_at_an_operation_loses_nothing(cli, work, at, when):
    run_killed(cli, work, at, when)
    assert operations(work) >= at
    assert_mended(cli, work)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_process_killed_at_any_operation_loses_nothing(cli, work, when, say):
    """Each operation that an undisturbed run does, and those of the run that follows a crash."""
    assert run_killed(cli, work, 0) == 0
    total = operations(work)
    assert total > 50
    ends = Counter()
    for at in range(1, total + 1):
        shutil.rmtree(work.parent / "out", ignore_errors=True)
        ends[run_killed(cli, work, at, when)] += 1
        assert_mended(cli, work)
    say(f"{total} operations, killed {when} each; exit codes {dict(ends)}")


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_one_of_two_workers_killed_while_the_other_goes_on(cli, work, say):
    """Where the client itself is hit, the run ends; where a worker is, the run goes on."""
    ends = Counter()
    for at in range(2, 120, 6):
        shutil.rmtree(work.parent / "out", ignore_errors=True)
        ends[run_killed(cli, work, at, args=("--workers", "2"))] += 1
        assert_mended(cli, work)
    say(f"two workers, one process killed each; exit codes {dict(ends)}")
    assert ends[0] > 0


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_second_crash_while_the_first_is_mended_loses_nothing(cli, work):
    run_killed(cli, work, 45)
    left = work.parent / "out"
    kept = work.parent / "kept"
    shutil.copytree(left, kept)
    for at in range(1, 40, 3):
        shutil.rmtree(left)
        shutil.copytree(kept, left)
        run_killed(cli, work, at)
        assert_mended(cli, work)


@pytest.mark.xdist_group("s3")
@pytest.mark.parametrize("at", [30])
def test_a_run_killed_at_a_request_to_the_store_loses_nothing(cli, s3, tmp_path, at):
    requests = killed_at_request(cli, s3, tmp_path, at)
    assert requests >= at


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.xdist_group("s3")
def test_a_run_killed_at_any_request_to_the_store_loses_nothing(cli, s3, tmp_path, say):
    total = killed_at_request(cli, s3, tmp_path / "all", 0)
    assert total > 40
    for at in range(1, total + 1):
        killed_at_request(cli, s3, tmp_path / str(at), at)
    say(f"{total} requests, killed at each")


def killed_at_request(cli, s3, folder, at):
    """Run a job from store to store, kill all of it at a request, run it again, and check it.

    Returns how many requests the first run made.
    """
    folder.mkdir(exist_ok=True)
    table = demo_rows(ROWS, every=50)
    source, out = s3.folder(), s3.folder()
    with s3.fs.open(f"{source}/a.parquet", "wb") as sink:
        pq.write_table(table, sink, row_group_size=10)
    with s3_proxy.running(s3.endpoint) as proxy:
        options = s3.options | {"endpoint_url": proxy.endpoint}
        job = write_job(
            folder,
            table,
            model=tiny(),
            shards={"target_rows": 20},
            input={"path": source, "text": "text", "storage_options": options},
            output={"path": out, "storage_options": options},
        )
        run = subprocess.Popen(
            [HEADRACE, "run", str(job), "--no-prefect"],
            cwd=cli.folder,
            env=cli.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

        def kill(request):
            if request.number == at:
                os.kill(run.pid, signal.SIGKILL)
                end_session(run.pid)
                return "lost"  # done by the store, perhaps, and heard of by nobody
            return None

        proxy.fault = kill
        try:
            run.wait(DEADLINE_S)
        finally:
            end_session(run.pid)
        time.sleep(0.2)
        first = len(proxy.seen)
        proxy.fault = None
        again = cli.run(job)
        assert again.rc == 0, again.stderr
        assert again.json["rows"] == {"in": ROWS, "good": ROWS, "null": 0, "errors": 0}
    root = out.removeprefix("s3://")
    names = [path.removeprefix(f"{root}/") for path in s3.fs.find(root)]
    parts = sorted(name for name in names if not name.startswith("_"))
    assert len(parts) == 3
    assert all(name.startswith("part-") for name in parts)
    tables = [pq.read_table(f"{root}/{part}", filesystem=s3.fs) for part in parts]
    assert pa.concat_tables(tables).select(table.column_names).equals(table)
    return first
