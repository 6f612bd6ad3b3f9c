"""Step 1a: list the input's files in one stable order, with their hive folders' values."""

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote

from upath import UPath

from headrace.schemas.errors import JobError
from headrace.schemas.job import InputFormat, InputSpec, Job
from headrace.stages.nesting import refuse_loops, refuse_nesting
from headrace.stages.places import AnyPath, is_local, place_of
from headrace.stages.store_listing import list_store, refuse_store_nesting

SUFFIXES: dict[InputFormat, tuple[str, ...]] = {
    "parquet": (".parquet",),
    "csv": (".csv", ".tsv"),
    "jsonl": (".jsonl", ".ndjson"),
    "arrow": (".arrow", ".feather"),
}
TITLES: dict[InputFormat, str] = {
    "parquet": "Parquet",
    "csv": "CSV",
    "jsonl": "JSON Lines",
    "arrow": "Arrow",
}
# As hive and Spark name the folder of rows that have no value.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

Partitions = tuple[tuple[str, str | None], ...]  # (column, the folder's text or null)


@dataclass(frozen=True)
class Listed:
    """A file of the input: where it is, its path below the input's base, its folders' values."""

    file: AnyPath
    relative: str
    partitions: Partitions  # outermost first


def list_input(spec: InputSpec, out: AnyPath) -> tuple[AnyPath, list[Listed]]:
    """List what `input.path` names: a file, a folder (recursively), or a glob.

    `out` is the output folder, which must lie elsewhere.

    Names that start with `_` or `.` are skipped, as Spark and pyarrow.dataset do.

    Returns:
        The base folder, and the files in the order of their relative paths.

    Raises:
        JobError: there is no such path, it holds no file of the format, a name there is no UTF-8, a
            folder can't be listed, or the output lies inside it or around it.
    """
    where = place_of(spec.path, "input.path", spec.storage_options)
    refuse_store_nesting(where, out)
    if is_local(where):
        base, files = _list_disk(spec, where, out)
        found = [_listed(file, file.relative_to(base).as_posix()) for file in files]
        return base, sorted(found, key=_relative)
    root, objects = _list_store(spec, where)
    found = [_listed(file, file.relative_to(root).as_posix()) for file in objects]
    return root, sorted(found, key=_relative)


def base_place(job: Job, base: str) -> AnyPath:
    """Make the base folder that `list_input` gave, from its text, in another process."""
    return place_of(base, "input.path", job.input.storage_options)


def _relative(entry: Listed) -> str:
    return entry.relative


def _list_store(spec: InputSpec, where: UPath) -> tuple[UPath, list[UPath]]:
    base, files = list_store(where, SUFFIXES[spec.format])
    if not files:
        kinds = " or ".join(f"*{suffix}" for suffix in SUFFIXES[spec.format])
        wanted = f"{TITLES[spec.format]} files ({kinds})"
        msg = f"input.path: expected {wanted}, and found none at {where}. Mend the URL."
        raise JobError(msg)
    return base, files


def _list_disk(spec: InputSpec, where: Path, out: AnyPath) -> tuple[Path, list[Path]]:
    if glob.has_magic(str(where)) and not where.exists():
        base, files = _glob(where, SUFFIXES[spec.format])
    elif where.is_dir():
        base, files = where, _below(where, SUFFIXES[spec.format])
    elif where.is_file():
        base, files = where.parent, [where]
    else:
        msg = f"input.path: expected a file, a folder or a glob, and there is nothing at {where}"
        raise JobError(msg)
    if not files:
        _refuse_empty(where, spec.format)
    if is_local(out):
        refuse_nesting(where, files, out)
    refuse_loops(base, files)
    for file in files:
        _refuse_name(file.relative_to(base))
    return base, files


def _refuse_empty(where: Path, wanted: InputFormat) -> NoReturn:
    kinds = " or ".join(f"*{suffix}" for suffix in SUFFIXES[wanted])
    msg = f"input.path: expected {TITLES[wanted]} files ({kinds}), and found none at {where}."
    for other in sorted(SUFFIXES.keys() - {wanted}):
        if where.is_dir() and _below(where, SUFFIXES[other]):
            msg += f" It holds {TITLES[other]} files: set input.format: {other}."
    raise JobError(msg)


def _glob(pattern: Path, suffixes: tuple[str, ...]) -> tuple[Path, list[Path]]:
    parts = pattern.parts
    fixed = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    base = Path(*parts[:fixed])
    found = (Path(name) for name in glob.iglob(str(pattern), recursive=True))  # noqa: PTH207 - `**` follows the same rules as in a shell
    visible = [path for path in found if _visible(base, path)]
    files = [path for path in visible if not path.is_dir()]
    read = {folder for path in files for folder in path.parents}
    for folder in visible:
        if folder.suffix in suffixes and folder not in read and folder.is_dir():
            msg = (
                f"input.path: expected files, and {pattern} matches the folder {folder}, whose "
                "files it does not match. Name the folder itself, or end the glob with /**."
            )
            raise JobError(msg)
    return base, files


def _below(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_refuse_folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        files += [Path(parent, name) for name in names if name.endswith(suffixes)]
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


def _listed(file: AnyPath, relative: str) -> Listed:
    return Listed(file, relative, partitions_of(relative))


def partitions_of(relative: str) -> Partitions:
    """Read the columns that hive folders (`name=value/`) add to a file, as text.

    Names and values are percent-decoded, as Spark and Hive encode them, and never retyped:
    `day=01` is the text "01". `__HIVE_DEFAULT_PARTITION__` is null.

    Raises:
        JobError: a folder's name decodes to no UTF-8, or two folders give one column.
    """
    found: dict[str, str | None] = {}
    for part in Path(relative).parent.parts:
        name, equals, value = part.partition("=")
        if not (name and equals):
            continue
        try:
            name, value = unquote(name, errors="strict"), unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            msg = f"input: expected percent-encoded UTF-8 in hive folder {part!r}, got {error}"
            raise JobError(msg) from error
        if name in found:
            msg = f"input: expected hive folder {name!r} once in a path, got it twice in {relative}"
            raise JobError(msg)
        found[name] = None if value == NO_VALUE else value
    return tuple(found.items())
