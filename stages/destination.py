"""What a run does with its output folder before it writes there: whose it is, and moving it."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from upath import UPath

from headrace.schemas import layout
from headrace.schemas.errors import JobError, OutputError
from headrace.schemas.job import Job
from headrace.stages.places import AnyPath, files_below, is_local, place_of
from headrace.stages.store import clean_tmp, create, names_in, own_tmp


def output_place(job: Job) -> AnyPath:
    """Say where a job's output is.

    Raises:
        JobError: it is no path, or no URL that fsspec opens.
    """
    return place_of(job.output.path, "output.path", job.output.storage_options)


def refuse_unwritable(out: AnyPath) -> None:
    """Refuse a local output folder that can't be made or written, without trying to.

    Raises:
        JobError: a file is in the way, or this user may not write there.
    """
    if not is_local(out):
        return  # a store is tried when the plan is written
    there = next(path for path in (out, *out.parents) if os.path.lexists(path))
    if not there.is_dir():
        msg = f"output.path: expected a folder, got {out}, and {there} is none. Choose another one."
        raise JobError(msg)
    if not os.access(there, os.W_OK | os.X_OK):
        msg = (
            f"output.path: expected a folder that this user may write, got {out}, and {there} is "
            "read-only. Choose another one, or change its rights."
        )
        raise JobError(msg)


def refuse_foreign(out: AnyPath) -> None:
    """Refuse a folder without a plan that holds something else.

    Raises:
        JobError: it does; some of what it holds is named.
    """
    strangers = [name for name in names_in(out) if name != layout.HOME]
    if strangers:
        msg = (
            f"output.path: expected an empty folder or one of this job's, and {out} holds "
            f"{strangers[:3]}. Choose another folder, or move it aside with --fresh."
        )
        raise JobError(msg)


def refuse_to_move(out: AnyPath, model: Path) -> None:
    """Refuse to move an output folder aside together with the model that the run is to load.

    Raises:
        JobError: the model lies in it.
    """
    if is_local(out) and out.resolve() in (model.resolve(), *model.resolve().parents):
        msg = (
            f"--fresh: expected the model outside the output folder that is to be moved, got "
            f"{model} inside {out}. Choose another output.path."
        )
        raise JobError(msg)


def set_aside(out: AnyPath, stamp: str) -> AnyPath | None:
    """Move an old output away: `--fresh` never deletes. Returns where to, or None."""
    # Some stores show folders that are empty by now.
    if not (names_in(out) if is_local(out) else files_below(out)):
        return None
    name = f"{out.name}.replaced-{stamp}"
    if is_local(out):
        out.rename(out.with_name(name))
    else:
        _copy_away(out, name)
    return out.with_name(name)


def _copy_away(out: UPath, name: str) -> None:
    """Copy every file, then remove them, the plan last: the next --fresh ends what was cut off."""
    names = sorted(files_below(out), key=lambda file: file == layout.PLAN)
    for file in names:
        out.fs.copy((out / file).path, (out.with_name(name) / file).path)
    for file in names:
        out.fs.rm_file((out / file).path)


@contextmanager
def made(out: AnyPath) -> Iterator[None]:
    """Make the output folder, and take it back if the disk does not take what is written first.

    Raises:
        OutputError: it is on a store that does not create files exclusively.
    """
    if not is_local(out):
        refuse_careless_store(out)
        yield
        return
    new = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError:
        clean_tmp(out)
        for folder in (out / layout.TMP, out / layout.HOME, *([out] if new else [])):
            with suppress(OSError):  # what holds something stays
                folder.rmdir()
        raise


def refuse_careless_store(out: UPath) -> None:
    """Try whether a store creates a file only where there is none.

    Raises:
        OutputError: it writes over it, so that two writers could replace each other's parts.
        OSError: it takes no file at all.
    """
    probe = out / layout.HOME / f"probe-{uuid.uuid4().hex}"
    try:
        # The first may be said to be taken: its answer was lost, and it was sent again.
        _, again = (create(probe, text, own_tmp(out)) for text in (b"first", b"second"))
    finally:
        with suppress(FileNotFoundError):
            probe.unlink()
    if again:
        msg = (
            f"output.path: expected a store that creates a file only where there is none (S3's "
            f"If-None-Match), got {out}, which writes over it. Two runs could lose each other's "
            "parts there. Choose a store that has it, or a folder on a disk."
        )
        raise OutputError(msg)
