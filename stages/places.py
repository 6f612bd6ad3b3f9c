"""Where files are: on this machine, or on an object store that fsspec knows (s3://bucket/folder).

universal-pathlib gives both the methods of `pathlib.Path`. What the two do not share is here and in
store.py. Listings are never cached: other processes write, too.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pydantic import JsonValue
from typing_extensions import TypeIs
from upath import UPath

from headrace.schemas.errors import JobError
from headrace.stages.store_session import attend
from headrace.stages.wording import in_short

AnyPath = Path | UPath
Options = Mapping[str, JsonValue]
Range = tuple[int, int]

SHOWN_CHARS = 100
LOCAL_SCHEME = "file://"
S3_SCHEMES = ("s3", "s3a")
# botocore's: a request that stalls is given up and sent again; s3fs tries five times around that.
S3_CONFIG = {
    "connect_timeout": 10,
    "read_timeout": 30,
    "retries": {"mode": "standard", "max_attempts": 3},
}
# Of a file in a multipart upload, ten of which are in memory at a time, and once more on their way
# out; a file of less than two goes in one request. S3 takes 10,000 of them.
S3_UPLOAD_BYTES = 16 << 20
VARIABLE = re.compile(r"\$\{(\w+)\}")


def is_local(path: AnyPath) -> TypeIs[Path]:
    """Say whether a path is on this machine's file systems."""
    return isinstance(path, Path)


def place_of(text: str, key: str, options: Options) -> AnyPath:
    """Make a path of a job's path or URL.

    Args:
        text: a path, relative to the current folder, or a URL.
        key: the job's key, for errors.
        options: `storage_options` beside it, for a URL: what fsspec's file system takes. `${NAME}`
            in a value is the environment variable of that name.

    Raises:
        JobError: the path is none that this machine can have, fsspec does not know the URL's
            scheme, or a variable is not set.
    """
    if "://" not in text or text.startswith(LOCAL_SCHEME):
        return local_path(text.removeprefix(LOCAL_SCHEME), key)
    given: dict[str, Any] = {
        name: _from_environment(value, key, name) for name, value in options.items()
    }
    scheme = text.partition("://")[0]
    if scheme in S3_SCHEMES:
        given["config_kwargs"] = {**S3_CONFIG, **given.get("config_kwargs", {})}
    try:
        place: UPath = UPath(text.rstrip("/"), **{"use_listings_cache": False, **given})
    except (ImportError, ValueError, TypeError) as error:
        msg = (
            f"{key}: expected a path, or a URL that fsspec opens, got {scheme}://… "
            f"({in_short(error)}) Install what it lacks, or mend storage_options."
        )
        raise JobError(msg) from error
    if scheme in S3_SCHEMES:
        attend(place.fs)
    return place


def _from_environment(value: JsonValue, key: str, name: str) -> JsonValue:
    if isinstance(value, Mapping):
        return {part: _from_environment(inner, key, name) for part, inner in value.items()}
    if not isinstance(value, str):
        return value
    lacking = [found for found in VARIABLE.findall(value) if found not in os.environ]
    if lacking:
        section = key.partition(".")[0]
        msg = (
            f"{section}.storage_options.{name}: expected the environment variable {lacking[0]}, "
            "and it is not set. Set it where headrace and its workers run."
        )
        raise JobError(msg)
    return VARIABLE.sub(lambda match: os.environ[match[1]], value)


def local_path(text: str, key: str) -> Path:
    """Make an absolute path of a job's path, relative to the current folder.

    Raises:
        JobError: the path is a URL, or no path that this machine can have.
    """
    if "://" in text:
        msg = (
            f"{key}: expected a path on this machine's file systems, got {text!r}. "
            "Copy it here first: only input.path and output.path may be URLs."
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


def open_bytes(path: AnyPath) -> IO[bytes]:
    """Open a file to be read. On a store, each read is one request for just those bytes."""
    if is_local(path):
        return path.open("rb")
    opened: IO[bytes] = path.open("rb", cache_type="none")
    return opened


def upload(file: Path, path: UPath) -> None:
    """Create a store's file from one of this machine, exclusively, in bounded memory.

    Raises:
        FileExistsError: the name is taken; of S3, an OSError whose cause says so.
        OSError: the store does not take it.
    """
    more = {"chunksize": S3_UPLOAD_BYTES} if path.protocol in S3_SCHEMES else {}
    path.fs.put_file(str(file), path.path, mode="create", **more)


def files_below(place: UPath) -> list[str]:
    """Name a store's files at and below a folder, relative to it, sorted.

    Some stores list a folder that is empty by now as itself, which is no file.
    """
    root = place.path.rstrip("/")
    found = (str(path).rstrip("/") for path in place.fs.find(place.path))
    return sorted(path.removeprefix(root).lstrip("/") for path in found if path != root)


@contextmanager
def store_errors(place: AnyPath) -> Iterator[None]:
    """Give what a store's library raises as an OSError, as a disk's faults are.

    Raises:
        OSError: the library raised something else, such as that nobody answers.
    """
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if is_local(place):
            raise
        msg = f"{place}: {in_short(error)}"
        raise OSError(msg) from error


@contextmanager
def on_disk(path: AnyPath) -> Iterator[Path]:
    """Give a file that is on this machine: itself, or a copy that is gone afterwards."""
    if is_local(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        copy = Path(folder) / path.name
        path.fs.get_file(path.path, str(copy))
        yield copy


def open_ranges(
    path: UPath, size: int, ranges: Sequence[Range], known: Mapping[Range, bytes]
) -> Any:  # noqa: ANN401 - fsspec's file
    """Fetch some ranges of bytes (start, end) of a store's file at once, and open them as a file.

    `known` are ranges that are here already. What is read outside of all of them is an error.
    """
    starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
    parts = path.fs.cat_ranges([path.path] * len(ranges), starts, ends, on_error="raise")
    return path.fs.open(
        path.path,
        "rb",
        size=size,
        cache_type="parts",
        cache_options={"data": {**known, **dict(zip(ranges, parts, strict=True))}, "strict": True},
    )
