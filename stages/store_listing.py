"""Step 1a on an object store: list what a URL names: a file, a folder (recursively), or a glob."""

import glob
from collections.abc import Callable
from typing import TypeVar

from upath import UPath

from headrace.schemas.errors import HeadraceError, JobError
from headrace.stages.places import AnyPath, files_below, is_local
from headrace.stages.store import hidden
from headrace.stages.wording import in_short

ResultT = TypeVar("ResultT")


def list_store(where: UPath, suffixes: tuple[str, ...]) -> tuple[UPath, list[UPath]]:
    """List files as `list_input` does.

    Returns:
        The base folder, and the files.

    Raises:
        JobError: there is nothing, or the store does not answer or forbids it.
    """
    if glob.has_magic(where.path):
        fixed = _fixed_part(where)
        root = fixed.path.rstrip("/")
        found = asked(where, lambda: where.fs.glob(where.path, detail=True))
        files = (path for path, details in found.items() if details["type"] == "file")
        names = [str(path).removeprefix(root).lstrip("/") for path in files]
        return fixed, [fixed / name for name in names if name and not hidden(name)]
    if asked(where, where.is_file):
        return where.parent, [where]
    names = asked(where, lambda: files_below(where))
    if not names:
        msg = f"input.path: expected a file, a folder or a glob, and there is nothing at {where}"
        raise JobError(msg)
    return where, [where / name for name in names if name.endswith(suffixes) and not hidden(name)]


def asked(where: UPath, question: Callable[[], ResultT]) -> ResultT:
    """Ask the store something.

    Raises:
        JobError: it does not answer, or forbids it; the message names the URL.
    """
    try:
        return question()
    except HeadraceError:
        raise
    except Exception as error:
        msg = (
            f"expected the store to answer for {where}, got {in_short(error)} "
            "Mend the URL, the rights or storage_options."
        )
        raise JobError(msg) from error


def _store(place: UPath) -> tuple[object, ...]:
    """Tell one store from another: equal paths may be on two."""
    return place.protocol, place.storage_options.get("endpoint_url")


def _fixed_part(where: UPath) -> UPath:
    """Go up to the folder above the first wildcard."""
    base = where
    while glob.has_magic(base.path):
        base = base.parent
    return base


def refuse_store_nesting(where: AnyPath, out: AnyPath) -> None:
    """Refuse an output on a store that a later run would read, or that the input lies in.

    Raises:
        JobError: one lies in the other.
    """
    if is_local(where) or is_local(out) or _store(where) != _store(out):
        return
    read = _fixed_part(where)
    for inner, outer in ((out, read), (read, out)):
        if inner.path == outer.path or inner.path.startswith(outer.path.rstrip("/") + "/"):
            msg = (
                f"output.path: expected a folder beside the input {where}, got {out}: "
                "one lies in the other, and who reads one would read both. Choose another folder."
            )
            raise JobError(msg)
