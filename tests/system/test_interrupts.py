"""Ctrl-C and SIGTERM: the first one drains the run, the second one stops it.

A terminal sends Ctrl-C to all processes in the foreground. So do these tests, unless they say not.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from cli_support import demo_rows, read_output, tiny, wait_for, write_job

# A shard of 100 rows takes the one device thread about a second, or about four.
SLOW, SLOWER = {"sleep_s": 0.05}, {"sleep_s": 0.2}
DRAINS = "in flight; Ctrl-C again stops at once"


def parts(folder):
    return sorted((folder / "out").glob("part-*.parquet"))


def start(tmp_path, cli, *, shards=10, prefect=False, **options):
    """Start a run and wait until some of its shards are committed."""
    job = write_job(tmp_path, demo_rows(shards * 100), model=tiny(**options))
    running = cli.start(job, prefect=prefect)
    wait_for(lambda: len(parts(tmp_path)) >= 1 or running.poll() is not None)
    assert running.poll() is None, running.communicate()
    return job, running


def read_until(running, words):
    """Read the run's stderr up to a line with these words, and return what was read."""
    lines = []
    while not lines or words not in lines[-1]:
        line = running.stderr.readline()
        assert line, lines
        lines.append(line)
    return lines


def interrupted(tmp_path, running, lines=()):
    """Wait for the end; check what it says against what is there. Returns the JSON object."""
    stdout, stderr = running.communicate(timeout=120)
    stderr = "".join(lines) + stderr
    assert running.returncode == 130, stderr
    assert [line for line in stderr.splitlines() if not line.startswith("headrace: ")] == []
    found = json.loads(stdout)
    assert found["status"] == "interrupted"
    assert "the same command goes on from there" in found["reason"]
    assert found["shards"]["failed"] == []
    assert found["shards"]["committed"] == len(parts(tmp_path))
    assert found["rows"]["in"] == found["rows"]["good"] == 100 * len(parts(tmp_path))
    assert json.loads((tmp_path / "out/_headrace/run.json").read_text()) == found
    assert not (tmp_path / "out/_SUCCESS").exists()
    return found


def goes_on(tmp_path, cli, job, shards=10):
    """Check that only parts are missing, and that the same command computes just those."""
    missing = shards - len(parts(tmp_path))
    faults = cli("verify", "out", "--json").json["faults"]
    assert len([fault for fault in faults if fault.startswith("part-")]) == missing
    assert all("missing" in fault or "_SUCCESS" in fault for fault in faults), faults
    again = cli.run(job)
    assert again.rc == 0, again.stderr
    assert again.json["shards"]["committed"] == missing
    assert read_output(tmp_path / "out").num_rows == shards * 100
    assert cli("verify", "out").rc == 0


def test_the_first_one_drains(tmp_path, cli):
    job, running = start(tmp_path, cli, **SLOW)
    before = len(parts(tmp_path))
    os.killpg(running.pid, signal.SIGINT)
    lines = read_until(running, DRAINS)
    found = interrupted(tmp_path, running, lines)
    assert 1 <= int(lines[-1].split()[2]) <= 3
    # What was begun is committed, and nothing else.
    assert before + 1 <= found["shards"]["committed"] <= before + 5
    assert found["ledger"]["wasted_s"] == 0
    assert not found["ledger"]["estimated"]
    goes_on(tmp_path, cli, job)


def test_the_second_one_stops_at_once(tmp_path, cli):
    job, running = start(tmp_path, cli, shards=4, **SLOWER)
    os.killpg(running.pid, signal.SIGTERM)
    lines = read_until(running, DRAINS)
    before = len(parts(tmp_path))
    for _ in range(3):  # nor does anybody's impatience change the exit code
        os.killpg(running.pid, signal.SIGINT)
    found = interrupted(tmp_path, running, lines)
    assert found["shards"]["committed"] <= before + 1  # three were begun, four seconds each
    assert list((tmp_path / "out/_headrace/tmp").iterdir()) == []
    goes_on(tmp_path, cli, job, shards=4)


def worker_of(running):
    """The process that computes: a nanny's child."""
    children = psutil.Process(running.pid).children(recursive=True)
    (worker,) = [child for child in children if "--multiprocessing-fork" in child.cmdline()]
    return worker


def test_draining_ends_when_the_worker_dies(tmp_path, cli):
    _, running = start(tmp_path, cli, **SLOWER)
    running.send_signal(signal.SIGTERM)  # to the run alone, as a service manager may
    lines = read_until(running, DRAINS)
    worker_of(running).kill()
    interrupted(tmp_path, running, lines)


def test_the_workers_end_with_a_run_that_is_killed(tmp_path, cli):
    _, running = start(tmp_path, cli, **SLOW)
    children = psutil.Process(running.pid).children(recursive=True)
    assert len(children) >= 3  # a scheduler, a nanny, its worker
    running.kill()
    running.communicate(timeout=60)
    wait_for(lambda: not any(child.is_running() for child in children))


def test_before_a_shard_is_in_flight_the_first_one_is_enough(tmp_path, cli):
    job = write_job(tmp_path, demo_rows(100), model=tiny(**SLOW))
    running = cli.start(job)
    lines = read_until(running, "planning")
    os.killpg(running.pid, signal.SIGINT)
    stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted before a shard was in flight" in stderr
    said = ("".join(lines) + stderr).splitlines()
    assert [line for line in said if not line.startswith("headrace: ")] == []
    assert json.loads(stdout)["status"] == "interrupted"
    assert not (tmp_path / "out").exists()


def test_with_prefect_too(tmp_path, cli):
    _, running = start(tmp_path, cli, prefect=True, **SLOW)
    os.killpg(running.pid, signal.SIGINT)
    found = interrupted(tmp_path, running, read_until(running, DRAINS))
    assert found["ledger"]["wasted_s"] == 0
    with sqlite3.connect(Path(cli.env["PREFECT_HOME"]) / "prefect.db") as db:
        (state,) = db.execute("select state_type from flow_run where name = 'job'").fetchall()
    assert state == ("FAILED",)


SCRIPT = """
import sys, threading, time
import headrace as hr

def work():
    run = hr.run(sys.argv[1], prefect=False, quiet=True)
    print(run.status, run.rows.good)

thread = threading.Thread(target=work)
thread.start()
try:
    while thread.is_alive():
        time.sleep(0.1)
except KeyboardInterrupt:
    print("main was interrupted", flush=True)
thread.join()
"""


def test_a_run_in_a_thread_goes_on_when_the_main_thread_is_interrupted(tmp_path, cli):
    job = write_job(tmp_path, demo_rows(400), model=tiny(**SLOW))
    (tmp_path / "script.py").write_text(SCRIPT)
    running = subprocess.Popen(
        [sys.executable, "script.py", str(job)],
        cwd=tmp_path,
        env=cli.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: len(parts(tmp_path)) >= 1 or running.poll() is not None)
    os.killpg(running.pid, signal.SIGINT)
    stdout, stderr = running.communicate(timeout=120)
    assert (running.returncode, stderr) == (0, "")
    assert stdout.splitlines() == ["main was interrupted", "done 400"]


@pytest.mark.filterwarnings("default")  # the kernel's own libraries warn
def test_a_notebook_that_is_interrupted_gets_its_report(tmp_path, cli):
    from jupyter_client.manager import start_new_kernel

    job = write_job(tmp_path, demo_rows(1_000), model=tiny(**SLOW))
    manager, client = start_new_kernel(kernel_name="python3", env=cli.env, cwd=tmp_path)
    try:
        code = f"import headrace as hr; run = hr.run({str(job)!r}, prefect=False, quiet=True)"
        asked = client.execute(code, user_expressions={"status": "run.status"})
        wait_for(lambda: len(parts(tmp_path)) >= 1)
        manager.interrupt_kernel()
        reply = client.get_shell_msg(timeout=120)
        assert reply["parent_header"]["msg_id"] == asked
        assert reply["content"]["status"] == "ok", reply["content"]
        shown = reply["content"]["user_expressions"]["status"]["data"]["text/plain"]
        assert shown == "'interrupted'"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert 1 <= len(parts(tmp_path)) < 10
