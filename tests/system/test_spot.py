"""`headrace worker`: workers that come and go, with a notice or without, on a real scheduler."""

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cli_support import (
    HEADRACE,
    demo_rows,
    free_port,
    listens,
    read_output,
    tiny,
    wait_for,
    write_job,
)

DASK = str(Path(sys.executable).with_name("dask"))


@pytest.fixture
def scheduler(cli):
    """The address of a scheduler without workers."""
    port = free_port()
    command = [DASK, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    with subprocess.Popen(command, cwd=cli.folder, env=cli.env, stderr=subprocess.DEVNULL) as one:
        wait_for(lambda: listens(port))
        yield f"tcp://127.0.0.1:{port}"
        one.terminate()


@pytest.fixture
def start_worker(cli, scheduler):
    """Start `headrace worker`, and wait until it is there."""
    started = []

    def start(*args, **env):
        one = subprocess.Popen(
            [HEADRACE, "worker", scheduler, *args],
            cwd=cli.folder,
            env=cli.env | env,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(one)
        line = one.stderr.readline()
        assert "1 working for" in line, line + one.stderr.read()
        return one, line

    yield start
    for one in started:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()
        one.stderr.close()


def parts(folder):
    return sorted((folder / "out").glob("part-*.parquet"))


def start_run(cli, scheduler, folder, shards=8):
    job = write_job(folder, demo_rows(shards * 100), model=tiny(sleep_s=0.1))
    running = cli.start(job, "--scheduler", scheduler)
    wait_for(lambda: parts(folder) or running.poll() is not None)
    return running


def assert_whole(cli, running, rows):
    stdout, stderr = running.communicate(timeout=180)
    assert running.returncode == 0, stdout + stderr
    assert read_output(cli.folder / "out").num_rows == rows
    assert cli("verify", "out").rc == 0
    return stderr


@pytest.mark.timeout(300)
def test_workers_come_and_go_and_nothing_is_lost(cli, tmp_path, scheduler, start_worker):
    """One is asked to go, another is killed without a word, a third finishes the run."""
    first, line = start_worker("--cloud", "none")
    assert line.strip().endswith("watching SIGTERM")
    running = start_run(cli, scheduler, tmp_path)
    second, _ = start_worker("--cloud", "none")
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    said = first.stderr.read()
    assert "SIGTERM: 25 s left" in said
    assert "left: nothing is in flight here" in said
    before = len(parts(tmp_path))
    wait_for(lambda: len(parts(tmp_path)) > before or running.poll() is not None)
    os.killpg(second.pid, signal.SIGKILL)
    third, _ = start_worker("--cloud", "none")
    stderr = assert_whole(cli, running, 800)
    assert "is about to end; it gets no more shards" in stderr
    third.send_signal(signal.SIGTERM)
    assert third.wait(60) == 0


class _Metadata(BaseHTTPRequestHandler):
    """AWS's service, as far as a spot instance asks it: a stand-in."""

    action = None

    def do_PUT(self):
        self._say(200, "token")

    def do_GET(self):
        found = self.action if self.path.endswith("instance-action") else None
        self._say(404 if found is None else 200, found or "")

    def _say(self, code, text):
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@pytest.mark.timeout(300)
def test_a_cloud_s_notice_is_heeded_and_the_run_goes_on_elsewhere(
    cli, tmp_path, scheduler, start_worker, monkeypatch
):
    monkeypatch.setattr(_Metadata, "action", None)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Metadata) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{service.server_address[1]}"
        first, line = start_worker(HEADRACE_METADATA_URL=url)
        assert line.strip().endswith("watching SIGTERM and aws's notices")
        running = start_run(cli, scheduler, tmp_path, shards=4)
        start_worker("--cloud", "none")
        end = (datetime.now(UTC) + timedelta(seconds=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
        monkeypatch.setattr(_Metadata, "action", f'{{"action": "terminate", "time": "{end}"}}')
        asked = time.monotonic()
        assert first.wait(60) == 0
        assert time.monotonic() - asked < 30
        assert "aws's notice: " in first.stderr.read()
        assert_whole(cli, running, 400)
        service.shutdown()


@pytest.mark.timeout(120)
def test_a_worker_ends_with_its_scheduler(cli, scheduler, start_worker):
    import psutil

    one, _ = start_worker("--cloud", "none")
    port = int(scheduler.rpartition(":")[2])
    for found in psutil.net_connections("tcp"):
        if found.laddr and found.laddr.port == port and found.status == psutil.CONN_LISTEN:
            os.kill(found.pid, signal.SIGKILL)
    assert one.wait(90) in (0, 1)


def test_what_is_no_scheduler_is_refused(cli):
    port = free_port()
    found = cli("worker", f"tcp://127.0.0.1:{port}")
    assert found.rc == 2
    assert f"ADDR: expected a Dask scheduler at 'tcp://127.0.0.1:{port}'" in found.stderr
    assert cli("worker", "tcp://127.0.0.1:1", "--cloud", "moon").rc == 2
