import signal
import subprocess
import sys

import psutil
import pytest
from cli_support import wait_for

from headrace.flows.shield import SIGNALS, shielded

LIVE = "import signal, sys; sys.stdout.write('up\\n'); sys.stdout.flush(); sys.stdin.read()"


def child(code, *args):
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", SIGNALS)
def test_a_child_that_was_started_shielded_hears_nothing(number):
    with shielded():
        running = child(LIVE)
    running.stdout.readline()
    running.send_signal(number)
    stdout, _ = running.communicate("", timeout=60)
    assert (running.returncode, stdout) == (0, "")


def test_only_the_named_signals_are_kept_off():
    with shielded((signal.SIGINT,)):
        running = child(LIVE)
    running.stdout.readline()
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)
    assert running.returncode == -signal.SIGTERM


def test_our_own_signals_wait_and_the_mask_is_given_back():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    reached = False
    with pytest.raises(KeyboardInterrupt), shielded():  # noqa: PT012 - raised where it ends
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


SET_UP = """
import os, signal, subprocess, sys
from headrace.flows.shield import dask_setup
dask_setup(None)
assert all(signal.getsignal(s) == signal.SIG_IGN for s in (signal.SIGINT, signal.SIGTERM))
print("not on stdout", flush=True)
ignored = "import signal; raise SystemExit(signal.getsignal(signal.SIGINT) != signal.SIG_IGN)"
raise SystemExit(subprocess.run([sys.executable, "-c", ignored]).returncode)
"""


def test_what_a_nanny_ignores_its_worker_ignores_too_and_stdout_is_left_alone():
    done = subprocess.run(
        [sys.executable, "-c", SET_UP], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "not on stdout" in done.stderr


ORPHAN = """
import pathlib, subprocess, sys
code = "import pathlib, sys, time; from headrace.flows.shield import dask_setup; dask_setup(0); "
code += "pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
orphan = subprocess.Popen([sys.executable, "-c", code, sys.argv[1]])
print(orphan.pid, flush=True)
sys.stdin.read()
"""


def test_a_process_ends_when_its_parent_is_gone(tmp_path):
    watching = tmp_path / "watching"
    running = child(ORPHAN, str(watching))
    orphan = psutil.Process(int(running.stdout.readline()))
    wait_for(watching.exists)
    running.communicate("", timeout=60)
    wait_for(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE)
