"""What a run does with its output folder before it writes there: whose it is, and moving it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.schemas import layout
from headrace.schemas.errors import JobError
from headrace.stages.store import clean_tmp, names_in


def refuse_unwritable(out: Path) -> None:
    """Refuse an output folder that can't be made or written, without trying to.

    Raises:
        JobError: a file is in the way, or this user may not write there.
    """
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


def refuse_foreign(out: Path) -> None:
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


def refuse_to_move(out: Path, model: Path) -> None:
    """Refuse to move an output folder aside together with the model that the run is to load.

    Raises:
        JobError: the model lies in it.
    """
    if out.resolve() in (model.resolve(), *model.resolve().parents):
        msg = (
            f"--fresh: expected the model outside the output folder that is to be moved, got "
            f"{model} inside {out}. Choose another output.path."
        )
        raise JobError(msg)


def set_aside(out: Path, stamp: str) -> Path | None:
    """Move an old output away: `--fresh` never deletes. Returns where to, or None."""
    if not any(names_in(out)):
        return None
    target = out.with_name(f"{out.name}.replaced-{stamp}")
    out.rename(target)
    return target


@contextmanager
def made(out: Path) -> Iterator[None]:
    """Make the output folder, and take it back if the disk does not take what is written first."""
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
