"""`--scheduler ADDRESS` where there is none: one message, within the deadline of 15 seconds."""

import json
import socket
import subprocess
import threading

import pytest
from cli_support import HEADRACE
from mistake_support import check, refused, tiny_job


@pytest.fixture
def job(tmp_path, tiny_model):
    return tiny_job(tmp_path, tiny_model)


@pytest.fixture
def silent():
    """The address of one who listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def chatty():
    """The address of one who answers each caller, but not as Dask does."""

    def serve():
        while True:
            try:
                caller, _ = server.accept()
            except OSError:
                return
            with caller:
                caller.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 4)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("tcp://127.0.0.1", ("missing port number", "tcp://HOST:8786")),
        ("127.0.0.1:x", ("ValueError", "tcp://HOST:8786")),
        ("nonsense://x:1", ("unknown address scheme 'nonsense'",)),
        ("", ("expected a Dask scheduler at ''", "dask scheduler")),
    ],
)
def test_what_is_no_address(tmp_path, job, address, words):
    args = ("run", job, "--no-prefect", "--scheduler", address)
    check(tmp_path, args, 2, ("--scheduler: expected a Dask scheduler at", *words))


def test_workers_belong_to_a_cluster_of_our_own(tmp_path, job):
    args = ("run", job, "--no-prefect", "--scheduler", "tcp://h:1", "--workers", "2")
    check(tmp_path, args, 2, ("--workers: expected how many to start here", "with --scheduler"))


def test_who_answers_and_is_no_scheduler(tmp_path, job, chatty):
    args = ("run", job, "--no-prefect", "--scheduler", chatty)
    check(tmp_path, args, 2, (f"--scheduler: expected a Dask scheduler at '{chatty}'", "got "))


def test_who_never_answers_and_who_is_not_there_are_given_up_in_time(tmp_path, cli, job, silent):
    addresses = (silent, "tcp://127.0.0.1:9")
    running = [
        subprocess.Popen(
            [HEADRACE, "run", job, "--no-prefect", "--json", "--scheduler", address],
            cwd=tmp_path,
            env=cli.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for address in addresses
    ]
    for address, process in zip(addresses, running, strict=True):
        stdout, stderr = process.communicate(timeout=60)
        process.rc, process.stdout, process.stderr = process.returncode, stdout, stderr
        words = (f"--scheduler: expected a Dask scheduler at '{address}'", "no answer within 15 s")
        refused(process, 2, *words)
        assert "Task was destroyed" not in stderr
    assert json.loads(stdout)["status"] == "refused"
    assert not (tmp_path / "out").exists()
