"""Step 10b: commit a shard. The exclusive creation of its data file is the commit."""

import os
from pathlib import Path

from pydantic import ConfigDict

from headrace.schemas import layout
from headrace.schemas.plan import Value
from headrace.schemas.report import PartFile, Rows, ShardReport
from headrace.stages.places import AnyPath, is_local
from headrace.stages.store import as_json, create, file_sha256, publish


class CommitRecord(Value):
    """`_headrace/commits/<part>.<sha256>.json`: written before the data file appears.

    Several records for one part are normal (attempts that lost); one must match the file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = layout.FORMAT
    part: str
    sha256: str
    size_bytes: int
    shard: int
    shard_id: str
    job_fingerprint: str
    input_fingerprint: str
    rows: Rows
    errors_sha256: str | None  # names the list of guilty rows


def commit(
    tmp_file: Path,
    out: AnyPath,
    part: str,
    report: ShardReport,
    errors_sha256: str | None,
    tmp: Path,
) -> PartFile | None:
    """Make a finished temporary file the part's data file, unless another attempt was first.

    The temporary file is gone afterwards, whatever happens: on a full disk it would be in the way.

    Returns:
        The committed file, or None when the name was taken by other bytes.
    """
    try:
        with tmp_file.open("rb") as source:
            os.fsync(source.fileno())
        sha256, size = file_sha256(tmp_file), tmp_file.stat().st_size
        record = CommitRecord(
            part=part,
            sha256=sha256,
            size_bytes=size,
            shard=report.shard,
            shard_id=report.shard_id,
            job_fingerprint=report.job_fingerprint,
            input_fingerprint=report.input_fingerprint,
            rows=report.tally.rows,
            errors_sha256=errors_sha256,
        )
        create(out / layout.commit_path(part, sha256), as_json(record), tmp)
        target = out / part
        if not publish(tmp_file, target) and file_sha256(target) != sha256:
            return None
        return part_file(target, sha256)
    finally:
        tmp_file.unlink(missing_ok=True)


def part_file(target: AnyPath, sha256: str) -> PartFile:
    """Describe a data file."""
    size, version = seen(target)
    return PartFile(name=target.name, sha256=sha256, size_bytes=size, version=version)


def seen(target: AnyPath) -> tuple[int, str]:
    """Tell a file's size, and what changes with its bytes: its time, or a store's ETag."""
    if is_local(target):
        stat = target.stat()
        return stat.st_size, str(stat.st_mtime_ns)
    details = target.fs.info(target.path)
    return int(details["size"]), str(details.get("ETag") or details.get("LastModified"))
