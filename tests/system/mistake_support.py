"""How a mistake is made, and what must be left of it: one message, the right code, nothing else."""

import contextlib
import io
import json
import signal
import sys
from types import SimpleNamespace

import yaml
from cli_support import demo_rows, tree, write_job

MOST_LINES = 8


def run_here(folder, *args):
    """Run the command line in this process: a start of its own takes seconds."""
    from headrace.flows.cli import main

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    argv, out, err = sys.argv, io.StringIO(), io.StringIO()
    sys.argv = ["headrace", *map(str, args)]
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = argv
        for number, handler in before.items():
            signal.signal(number, handler)
    return SimpleNamespace(rc=code, stdout=out.getvalue(), stderr=err.getvalue())


def tiny_job(folder, model_folder, **sections):
    """A job of 20 rows whose model is tests/system/tiny_models.py."""
    model = {"path": str(model_folder), "factory": "tiny_models:build", "precision": "fp32"}
    return write_job(folder, demo_rows(20), model=model, **sections)


def change(job, **changes):
    """Change a job file; `section__key=value`, and None takes a key out."""
    content = yaml.safe_load(job.read_text())
    for key, value in changes.items():
        *parents, last = key.split("__")
        section = content
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
        if value is None:
            del section[last]
    job.write_text(yaml.safe_dump(content))


def refused(result, code, *words):
    """Check that a command was refused by one message of a few lines that says these words."""
    assert result.rc == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    said = result.stderr.strip().splitlines()
    assert 1 <= len(said) <= MOST_LINES, result.stderr
    text = " ".join(result.stderr.split())
    for word in words:
        assert word in text, result.stderr
    found = json.loads(result.stdout)
    assert found["exit_code"] == code
    assert found["status"] in {"refused", "failed"}
    assert found["error"] in result.stderr


def snapshot(folder):
    """What is there, or None."""
    return tree(folder) if folder.exists() else None


def check(folder, args, code, words, before=None):
    """Run a command here, and check that it is refused and leaves `out` as it was."""
    command, *rest = args
    refused(run_here(folder, command, "--json", *rest), code, *words)
    assert snapshot(folder / "out") == before
