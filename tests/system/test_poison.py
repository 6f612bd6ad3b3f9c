"""Rows that no exception handler saves: bisected to the row, or failed by the shard's name."""

import json

import pyarrow as pa
import pytest
from cli_support import demo_rows, read_output, wait_for, write_job

ZEBRA = 29_145  # MiniLM's token
POISONED = 123  # in the second of four shards


def poisoned(folder, does, **compute):
    """A job of four shards, one row of which has the token."""
    table = demo_rows(400)
    texts = ["a plain text"] * 400
    texts[POISONED] = "a zebra"
    table = table.set_column(2, "text", pa.array(texts))
    model = {
        "factory": "tiny_models:build_poison",
        "options": {"on": ZEBRA, "does": does},
        "precision": "fp32",
    }
    return write_job(folder, table, model=model, compute={"workers": 2, **compute})


@pytest.mark.timeout(240)
@pytest.mark.parametrize("does", ["exit", "explode"])
def test_a_row_that_leaves_the_process_alive_is_lost_alone(tmp_path, cli, does):
    run = cli.run(poisoned(tmp_path, does, workers=1))
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 400, "good": 399, "null": 0, "errors": 1}
    reason = read_output(tmp_path / "out")["headrace_error"][POISONED].as_py()
    assert reason == {"exit": "SystemExit in forward", "explode": "RuntimeError in forward"}[does]
    assert "secret" not in run.stdout + run.stderr
    assert cli("verify", "out").rc == 0


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("does", "compute"), [("die", {}), ("hang", {"stall_timeout_s": 1.0})], ids=["die", "hang"]
)
def test_a_shard_that_kills_its_worker_fails_by_name_and_all_the_others_are_committed(
    tmp_path, cli, does, compute
):
    job = poisoned(tmp_path, does, max_attempts=2, **compute)
    run = cli.run(job)
    assert run.rc == 3, run.stderr
    assert run.json["shards"]["committed"] == 3
    (failed,) = run.json["failures"].items()
    assert failed[0].startswith("part-0000001-")
    assert failed[1] == "the worker died while it computed this shard alone, 2 times"
    # What went with it was suspected, and is there.
    assert sorted(part.name[:12] for part in (tmp_path / "out").glob("part-*")) == [
        f"part-000000{at}" for at in (0, 2, 3)
    ]
    again = cli.run(job, "--set", "compute.max_attempts=1")
    assert again.rc == 3
    shards = again.json["shards"]
    assert (shards["committed"], shards["skipped"], len(shards["failed"])) == (0, 3, 1)
    healed = ["--set", f"model.options.on={-1}"]
    again = cli.run(job, *healed)
    assert again.rc == 5  # another model is another job
    faults = json.loads(cli("verify", "out", "--json").stdout)["faults"]
    assert any("part-0000001-" in fault and "missing" in fault for fault in faults)


def test_a_model_that_kills_every_worker_at_its_start_is_said_so(tmp_path, cli):
    job = write_job(tmp_path, demo_rows(100), model={"factory": "tiny_models:die_at_once"})
    run = cli.run(job)
    assert run.rc == 1
    assert "3 died while they did" in run.json["error"]
    assert not (tmp_path / "out").exists()


def test_with_no_worker_left_a_run_waits_with_a_message_and_then_fails_by_name(tmp_path, cli):
    """The workers' nannies are killed too: nobody starts another."""
    import os
    import signal

    import psutil

    job = poisoned(tmp_path, "none", worker_timeout_s=3.0)
    running = cli.start(job, "--set", "model.options.sleep_s=1.0")
    wait_for(lambda: list((tmp_path / "out").glob("part-*")) or running.poll() is not None)
    for child in psutil.Process(running.pid).children(recursive=True):
        try:
            command = " ".join(child.cmdline())
        except psutil.ZombieProcess:  # on its way out already
            continue
        if "ShieldedNanny" in command:
            for one in (child, *child.children(recursive=True)):
                os.kill(one.pid, signal.SIGKILL)
    stdout, stderr = running.communicate(timeout=120)
    assert running.returncode == 1
    assert "no worker is left; waiting up to 3 s for another" in stderr
    assert "part-000000" in json.loads(stdout)["error"]
    assert "run the same command again" in json.loads(stdout)["error"]
