"""Refuses an output in the input or around it, and loops; symbolic links hide neither."""

import glob
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from headrace.schemas.errors import JobError
from headrace.schemas.layout import part_name


def refuse_nesting(where: Path, files: Sequence[Path], out: Path) -> None:
    """Refuse an output that a later run would read, or that the input lies in.

    Args:
        where: the absolute path that `input.path` names: a file, a folder or a glob.
        files: the input's files there.
        out: the absolute path of the output folder, which need not exist.

    Raises:
        JobError: one lies in the other.
    """
    real = out.resolve()
    folders = {folder.resolve() for folder in {file.parent for file in files}}
    if where.is_dir():
        read = any(_holds(folder, real) for folder in (where.resolve(), *folders))
    else:
        read = any(
            _matches((target / part_name(0, "0" * 8)).parts, pattern.parts)
            for target, pattern in ((out, where), (real, _resolved(where)))
        )
    if read:
        msg = (
            f"output.path: expected a folder outside the input, got {out} inside {where}; "
            "a later run would read its own results. Choose another folder."
        )
        raise JobError(msg)
    if any(_holds(real, folder) for folder in folders):
        msg = (
            f"output.path: expected a folder that does not hold the input, got {out} around "
            f"{where}; who reads it would read both. Choose another folder."
        )
        raise JobError(msg)


def refuse_loops(base: Path, files: Sequence[Path]) -> None:
    """Refuse a folder that is reached again from inside itself: its rows would count many times.

    Raises:
        JobError: a symbolic link leads back to a folder around it.
    """
    real_base = base.resolve()
    for folder in {file.parent for file in files}:
        real, below = folder.resolve(), folder.relative_to(base)
        if real == real_base / below:
            continue  # no link on the way
        for above in below.parents:
            if (base / above).resolve() == real:
                msg = (
                    f"input.path: expected folders without a loop, got {folder}, a way back to "
                    f"{base / above}. Remove the symbolic link."
                )
                raise JobError(msg)


def _holds(folder: Path, path: Path) -> bool:
    return folder == path or folder in path.parents


def _resolved(pattern: Path) -> Path:
    """Follow the symbolic links of the part before the first wildcard."""
    parts = pattern.parts
    fixed = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return Path(*parts[:fixed]).resolve().joinpath(*parts[fixed:])


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """Say whether a glob would match a path; `**` stands for any number of folders."""
    if not pattern or not path:
        return not pattern and not path
    if pattern[0] == "**":
        rest = pattern[1:]
        return not rest or any(_matches(path[at:], rest) for at in range(len(path)))
    return fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])
