"""Files of the output: written whole or not at all, and made durable.

The protocol of the exclusive creation. On a disk: write a temporary file on the same file system,
fsync it, `link` it to its final name (which fails when the name exists), fsync the folder. On an
object store: `If-None-Match: *` on PUT or, for large files, on CompleteMultipartUpload. A name is
thus either absent or complete, and the first writer wins.
"""

import errno
import hashlib
import json
import os
import random
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TypeVar

import psutil
from pydantic import BaseModel, ValidationError

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError, OutputError
from headrace.stages.places import (
    AnyPath,
    files_below,
    is_local,
    open_bytes,
    store_errors,
    upload,
)

ModelT = TypeVar("ModelT", bound=BaseModel)
BLOCK_BYTES = 8 << 20
# How S3 says that a name is taken, and that another is taking it right now: then one tries again
# (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html).
TAKEN, BUSY = ("PreconditionFailed", "412"), ("ConditionalRequestConflict", "409")
BUSY_PAUSES_S = (0.1, 0.3, 1.0, 3.0)
# What a disk says that a second attempt does not mend.
REFUSALS = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
)


@contextmanager
def writing(out: AnyPath, *, refusals_only: bool = False) -> Iterator[None]:
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
        refused = error.errno in REFUSALS or isinstance(error, PermissionError)
        if refusals_only and not refused:
            raise
        why = str(error) if error.errno is None else os.strerror(error.errno)
        msg = (
            f"output.path: expected to write in {out}, got: {why}. Mend that and run the same "
            "command again: what is committed is valid."
        )
        raise OutputError(msg) from error


def own_tmp(out: AnyPath) -> Path:
    """Make the folder for this process's temporary files, on the output's file system if it can."""
    folder = _tmp_of(out) / f"{socket.gethostname()}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _tmp_of(out: AnyPath) -> Path:
    if is_local(out):
        return out / layout.TMP
    return Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}"


def clean_tmp(out: AnyPath) -> None:
    """Remove what dead processes of this machine left; never a living one's files."""
    folder = _tmp_of(out)
    for name in names_in(folder):
        host, _, pid = name.rpartition("-")
        ours = host == socket.gethostname() and pid.isdigit()
        if ours and (int(pid) == os.getpid() or not _lives(int(pid))):
            shutil.rmtree(folder / name)


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def create(path: AnyPath, data: bytes, tmp: Path) -> bool:
    """Create `path` with these bytes unless it exists. Returns whether this call created it."""
    if is_local(path):
        return publish(_written(tmp, data), path)
    with store_errors(path):
        return _created(lambda: path.fs.pipe_file(path.path, data, mode="create"))


def publish(tmp_file: Path, path: AnyPath) -> bool:
    """Give a finished temporary file its final name, exclusively, and remove the temporary one.

    Returns whether this call created `path`; False when the name was taken.
    """
    try:
        if not is_local(path):
            with store_errors(path):
                return _created(lambda: upload(tmp_file, path))
        path.parent.mkdir(parents=True, exist_ok=True)
        return _created(lambda: os.link(tmp_file, path), path.parent)
    finally:
        tmp_file.unlink()


def _created(work: Callable[[], object], folder: Path | None = None) -> bool:
    """Do what creates a name. Returns False where the name was taken."""
    for pause_s in (*BUSY_PAUSES_S, None):
        try:
            work()
        except OSError as error:
            code = _said_by_s3(error)
            if isinstance(error, FileExistsError) or code in TAKEN:
                return False
            if code not in BUSY or pause_s is None:
                raise
            time.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - so that writers part
        else:
            break
    if folder is not None:
        sync_folder(folder)
    return True


def _said_by_s3(error: OSError) -> str | None:
    """Give the code of S3's answer, where there is one: s3fs passes on what botocore said."""
    response = getattr(error.__cause__, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


def replace(path: AnyPath, data: bytes, tmp: Path) -> None:
    """Write `path` whole, whatever was there: for views, never for the truth."""
    if not is_local(path):
        with store_errors(path):
            path.fs.pipe_file(path.path, data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    _written(tmp, data).replace(path)
    sync_folder(path.parent)


def move(out: AnyPath, name: str, new_name: str) -> None:
    """Give a file of the output another name in it; on a store, by a copy."""
    if not is_local(out):
        with store_errors(out):
            out.fs.copy((out / name).path, (out / new_name).path)
            out.fs.rm_file((out / name).path)
        return
    target = out / new_name
    target.parent.mkdir(parents=True, exist_ok=True)
    (out / name).rename(target)
    sync_folder((out / name).parent)


def remove(path: AnyPath) -> None:
    """Remove a file of the output, for good."""
    path.unlink()
    if is_local(path):
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


def visible_files(out: AnyPath) -> Iterator[str]:
    """Name the files of a folder, and below it, that readers of data do not pass over."""
    if not is_local(out):
        yield from (name for name in files_below(out) if not hidden(name))
        return
    for parent, folders, names in os.walk(out):
        folders[:] = [name for name in folders if not hidden(name)]
        for name in sorted(names):
            if not hidden(name):
                yield (Path(parent) / name).relative_to(out).as_posix()


def hidden(relative: str) -> bool:
    """Say whether a part of a path begins as what readers of data pass over."""
    return any(part.startswith(("_", ".")) for part in PurePosixPath(relative).parts)


def file_sha256(path: AnyPath) -> str:
    """SHA-256 of a file, in hex."""
    if not is_local(path):
        found = hashlib.sha256()
        with open_bytes(path) as source:
            while block := source.read(BLOCK_BYTES):
                found.update(block)
        return found.hexdigest()
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def read_json(path: AnyPath, kind: type[ModelT]) -> ModelT:
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


def names_in(folder: AnyPath) -> list[str]:
    """The names in a folder, sorted; none where there is no folder."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
