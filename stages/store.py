"""Files of the output folder on a local disk: written whole or not at all, and made durable.

The protocol of the exclusive creation: write a temporary file on the same file system, fsync it,
`link` it to its final name (which fails when the name exists), fsync the folder. A name is thus
either absent or complete, and the first writer wins.
"""

import errno
import hashlib
import json
import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
from pydantic import BaseModel, ValidationError

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError, JobError, OutputError

SHOWN_CHARS = 100

ModelT = TypeVar("ModelT", bound=BaseModel)
# What a disk says that a second attempt does not mend.
REFUSALS = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
)


def local_path(text: str, key: str) -> Path:
    """Make an absolute path of a job's path, relative to the current folder.

    Raises:
        JobError: the path is a URL, or no path that this machine can have.
    """
    if "://" in text:
        msg = (
            f"{key}: expected a path on this machine's file systems, got {text!r}. "
            "Object stores are not supported by this version; mount the bucket or copy the data."
        )
        raise JobError(msg)
    try:
        path = Path(os.path.abspath(Path(text).expanduser()))  # noqa: PTH100 - keep symbolic links
        text.encode()  # plans and reports are UTF-8
        path.stat()  # the system says what is no path
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, ValueError, RuntimeError) as error:
        shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
        why = error.strerror if isinstance(error, OSError) else error
        msg = f"{key}: expected a path on this machine, got {shown!r}: {why}"
        raise JobError(msg) from error
    return path


@contextmanager
def writing(out: Path, *, refusals_only: bool = False) -> Iterator[None]:
    """Name the output folder when its disk does not take what is written to it.

    Args:
        out: the output folder.
        refusals_only: let other errors of the disk pass as they are: they may be tried again.

    Raises:
        OutputError: the disk is full or read-only, or forbids it.
    """
    try:
        yield
    except OSError as error:
        if refusals_only and error.errno not in REFUSALS:
            raise
        why = str(error) if error.errno is None else os.strerror(error.errno)
        msg = (
            f"output.path: expected to write in {out}, got: {why}. Mend that and run the same "
            "command again: what is committed is valid."
        )
        raise OutputError(msg) from error


def own_tmp(out: Path) -> Path:
    """Make the folder for this process's temporary files, on the output's file system."""
    folder = out / layout.TMP / f"{socket.gethostname()}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def clean_tmp(out: Path) -> None:
    """Remove what dead processes of this machine left; never a living one's files."""
    for name in names_in(out / layout.TMP):
        host, _, pid = name.rpartition("-")
        ours = host == socket.gethostname() and pid.isdigit()
        if ours and (int(pid) == os.getpid() or not _lives(int(pid))):
            shutil.rmtree(out / layout.TMP / name)


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def create(path: Path, data: bytes, tmp: Path) -> bool:
    """Create `path` with these bytes unless it exists. Returns whether this call created it."""
    return publish(_written(tmp, data), path)


def publish(tmp_file: Path, path: Path) -> bool:
    """Give a finished temporary file its final name, exclusively, and remove the temporary one.

    Returns whether this call created `path`; False when the name was taken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(tmp_file, path)
    except FileExistsError:
        return False
    else:
        sync_folder(path.parent)
        return True
    finally:
        tmp_file.unlink()


def replace(path: Path, data: bytes, tmp: Path) -> None:
    """Write `path` whole, whatever was there: for views, never for the truth."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _written(tmp, data).replace(path)
    sync_folder(path.parent)


def _written(tmp: Path, data: bytes) -> Path:
    file = tmp / f"{uuid.uuid4().hex}.tmp"
    try:
        with file.open("xb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
    except OSError:
        file.unlink(missing_ok=True)
        raise
    return file


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def as_json(value: BaseModel) -> bytes:
    """Write a value as indented JSON."""
    return (value.model_dump_json(by_alias=True, indent=1) + "\n").encode()


def canonical(value: object) -> bytes:
    """Write plain data as the one JSON text that stands for it: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(value: object) -> str:
    """SHA-256 of plain data, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def read_json(path: Path, kind: type[ModelT]) -> ModelT:
    """Read a value that `as_json` wrote.

    Raises:
        DamagedError: the file is not such a value.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        where = "".join(f"{part}: " for part in fault["loc"])
        msg = f"{path}: expected a {kind.__name__} as headrace writes it: {where}{fault['msg']}"
        raise DamagedError(msg) from error


def names_in(folder: Path) -> Iterator[str]:
    """The names in a folder, sorted; none where there is no folder."""
    if folder.is_dir():
        yield from sorted(entry.name for entry in os.scandir(folder))
