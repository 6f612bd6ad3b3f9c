"""Prefect, notebooks, scripts, schedulers, classification: the ways people run a job."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_support import HEADRACE, demo_rows, read_output, tiny, write_job


def test_a_prefect_flow_run_with_one_task_run_a_wave(tmp_path, cli):
    job = write_job(tmp_path, demo_rows(400), model=tiny())
    run = cli.run(job, prefect=True)
    assert run.rc == 0, run.stderr
    assert run.json["rows"]["good"] == 400
    assert "temporary server" in run.stderr
    with sqlite3.connect(Path(cli.env["PREFECT_HOME"]) / "prefect.db") as db:
        flows = db.execute("select name, state_type from flow_run where name = 'job'").fetchall()
        tasks = db.execute("select name, state_type from task_run order by name").fetchall()
    assert ("job", "COMPLETED") in flows
    assert {name for name, _ in tasks} >= {f"wave {at}" for at in range(4)}
    assert {state for _, state in tasks} == {"COMPLETED"}
    assert cli("verify", "out").rc == 0


def test_only_run_starts_a_prefect_server(tmp_path, cli):
    job = write_job(tmp_path, demo_rows(100), model=tiny())
    assert cli.run(job).rc == 0
    for command in (("plan", job), ("status", "out"), ("verify", "out"), ("report", "out")):
        assert cli(*command).rc == 0
    assert cli("doctor").rc == 0
    assert cli("run", job).rc == 0  # finished already
    assert not Path(cli.env["PREFECT_HOME"]).exists()


def test_an_unguarded_script(tmp_path, cli):
    job = write_job(tmp_path, demo_rows(200), model=tiny())
    script = tmp_path / "script.py"
    script.write_text(
        "import headrace as hr\n"
        f"run = hr.run({str(job)!r}, prefect=False)\n"
        "assert run.status == 'done', run\n"
        "print(run.rows.good, hr.verify('out').ok)\n"
        "print(run)\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=cli.env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("200 True\n")
    assert "200 in = 200 good" in done.stdout


@pytest.mark.filterwarnings("default")  # the kernel's own libraries warn
def test_a_notebook_kernel(tmp_path, cli, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", cli.env["PYTHONPATH"])
    job = write_job(tmp_path, demo_rows(200), model=tiny())
    cells = [
        "import headrace as hr",
        f"run = hr.run({str(job)!r}, prefect=False); run",
        "hr.verify('out').ok",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    shown = [o for o in notebook.cells[1].outputs if o.output_type == "execute_result"]
    assert "200 good" in shown[0].data["text/html"]
    assert notebook.cells[2].outputs[-1].data["text/plain"] == "True"


def test_an_existing_scheduler_and_two_workers(tmp_path, cli):
    from distributed.deploy.subprocess import SubprocessCluster

    os.environ["PYTHONPATH"] = cli.env["PYTHONPATH"]
    try:
        with SubprocessCluster(
            n_workers=2, threads_per_worker=2, dashboard_address=None, silence_logs=50
        ) as cluster:
            job = write_job(
                tmp_path, demo_rows(600), model=tiny(sleep_s=0.5), price={"per_hour": 1.0}
            )
            run = cli.run(job, "--scheduler", cluster.scheduler_address)
    finally:
        del os.environ["PYTHONPATH"]
    assert run.rc == 0, run.stderr
    assert run.json["rows"]["good"] == 600
    files = (tmp_path / "out/_headrace/workers").iterdir()
    records = [json.loads(file.read_text()) for file in files]
    assert len(records) == 2
    # Two workers share one host's price.
    assert {record["price"]["worker_per_hour"] for record in records} == {0.5}
    assert all(record["shards_s"] > 0 for record in records)
    assert cli("verify", "out").rc == 0


@pytest.mark.filterwarnings("default")  # transformers' own
def test_classify_agrees_with_transformers(tmp_path, cli, classifier):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    table = demo_rows(200, every=60)
    model = {"path": str(classifier), "task": "classify", "top_k": 3}
    run = cli.run(write_job(tmp_path, table, model=model))
    assert run.rc == 0, run.stderr
    output = read_output(tmp_path / "out")
    theirs = AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    tokenizer = AutoTokenizer.from_pretrained(classifier)
    with torch.inference_mode():
        batch = tokenizer(table["text"].to_pylist(), padding=True, return_tensors="pt")
        logits = theirs(batch["input_ids"], batch["attention_mask"]).logits
        expected = logits.softmax(1).sort(descending=True)
    names = theirs.config.id2label
    labels = [names[int(row[0])] for row in expected.indices]
    assert output["label"].to_pylist() == labels
    assert len(set(labels)) > 2
    np.testing.assert_allclose(output["score"].to_numpy(), expected.values[:, 0], atol=1e-5)
    first = output["top"][0].as_py()
    assert [entry["label"] for entry in first] == [names[int(i)] for i in expected.indices[0][:3]]
    assert cli("verify", "out").rc == 0


def test_plan_says_what_a_run_would_do_and_writes_nothing(tmp_path, cli):
    job = write_job(tmp_path, demo_rows(300), model=tiny(), price={"per_hour": 1})
    found = cli("plan", job, "--json")
    assert found.rc == 0, found.stderr
    assert found.json["rows"] == 300
    assert found.json["shards"] == 3
    assert found.json["estimated_cost"] > 0
    assert found.json["result"]["width"] == 8
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"]])
def test_help_is_quick(cli, command):
    # The promise is one second; three leave room for a busy machine.
    best = 9.0
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([HEADRACE, *command], env=cli.env, capture_output=True, check=True)
        best = min(best, time.perf_counter() - start)
    assert best < 3
