"""Step 1a: list the input's Parquet files in one stable order, with their hive folders' values."""

import glob
import os
from dataclasses import dataclass
from pathlib import Path

from headrace.schemas.errors import JobError
from headrace.stages.nesting import refuse_loops, refuse_nesting
from headrace.stages.store import local_path


@dataclass(frozen=True)
class Listed:
    """A file of the input: where it is, its path below the input's base, its folders' values."""

    file: Path
    relative: str
    partitions: tuple[tuple[str, str], ...]  # (column, the folder's text), outermost first


def list_input(path: str, out: str) -> tuple[Path, list[Listed]]:
    """List what `input.path` names: a file, a folder (recursively), or a glob.

    Names that start with `_` or `.` are skipped, as Spark and pyarrow.dataset do.

    Returns:
        The base folder, and the files in the order of their relative paths.

    Raises:
        JobError: there is no such path, it holds no Parquet file, a name there is no UTF-8, a
            folder can't be listed, or the output lies inside it or around it.
    """
    where = local_path(path, "input.path")
    if glob.has_magic(str(where)) and not where.exists():
        base, files = _glob(where)
    elif where.is_dir():
        base, files = where, _below(where)
    elif where.is_file():
        base, files = where.parent, [where]
    else:
        msg = f"input.path: expected a file, a folder or a glob, and there is nothing at {where}"
        raise JobError(msg)
    if not files:
        msg = f"input.path: expected Parquet files (*.parquet), and found none at {where}"
        raise JobError(msg)
    refuse_nesting(where, files, local_path(out, "output.path"))
    refuse_loops(base, files)
    for file in files:
        _refuse_name(file.relative_to(base))
    return base, sorted((_listed(base, file) for file in files), key=lambda entry: entry.relative)


def _glob(pattern: Path) -> tuple[Path, list[Path]]:
    parts = pattern.parts
    fixed = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    base = Path(*parts[:fixed])
    found = (Path(name) for name in glob.iglob(str(pattern), recursive=True))  # noqa: PTH207 - `**` follows the same rules as in a shell
    visible = [path for path in found if _visible(base, path)]
    files = [path for path in visible if not path.is_dir()]
    read = {folder for path in files for folder in path.parents}
    for folder in visible:
        if folder.suffix == ".parquet" and folder not in read and folder.is_dir():
            msg = (
                f"input.path: expected files, and {pattern} matches the folder {folder}, whose "
                "files it does not match. Name the folder itself, or end the glob with /**."
            )
            raise JobError(msg)
    return base, files


def _below(folder: Path) -> list[Path]:
    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_refuse_folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        files += [Path(parent, name) for name in names if name.endswith(".parquet")]
    return [file for file in files if _visible(folder, file)]


def _refuse_folder(error: OSError) -> None:
    """A folder that can't be listed must not be passed over."""
    msg = (
        f"input.path: expected to read the folder {error.filename}, got: {error.strerror}. "
        "Give this user the right to, or leave it out of input.path."
    )
    raise JobError(msg) from error


def _refuse_name(relative: Path) -> None:
    try:
        str(relative).encode()
    except UnicodeEncodeError as error:
        msg = (
            f"input.path: expected file names in UTF-8, got {os.fsencode(relative)!r}. "
            "Rename it, or leave it out of input.path."
        )
        raise JobError(msg) from error


def _visible(base: Path, file: Path) -> bool:
    return not any(part.startswith(("_", ".")) for part in file.relative_to(base).parts)


def _listed(base: Path, file: Path) -> Listed:
    relative = file.relative_to(base)
    pairs = [part.partition("=") for part in relative.parent.parts if "=" in part]
    return Listed(file, relative.as_posix(), tuple((key, text) for key, _, text in pairs))
