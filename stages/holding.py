"""Step 12a: what an output folder already holds, checked cheaply where that is enough."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError
from headrace.schemas.plan import Plan, PlanHeader, Shard
from headrace.schemas.report import ShardReport
from headrace.stages.commit import part_file, seen
from headrace.stages.parquet_source import parquet_metadata
from headrace.stages.places import AnyPath
from headrace.stages.store import (
    as_json,
    file_sha256,
    move,
    own_tmp,
    read_json,
    remove,
    replace,
)

CHECKERS = 8


@dataclass(frozen=True)
class Holding:
    """A plan's shards by what became of them so far."""

    reports: dict[int, ShardReport]  # committed and whole
    rebuilt: tuple[int, ...]  # of these, the reports to write anew: lost, or of a moved file
    damaged: dict[int, str]  # why the data file can't be trusted
    missing: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Whether every shard is committed."""
        return not self.damaged and not self.missing


def look_at(out: AnyPath, plan: Plan) -> Holding:
    """Check every part: its footer, and its size and time against the report.

    Where size or time differ, or the report is gone, the file is read in full and compared with
    the commit records. Writes nothing.
    """
    with ThreadPoolExecutor(CHECKERS) as pool:
        found = list(pool.map(lambda shard: _look_at_part(out, plan.header, shard), plan.shards))
    pairs = list(zip(plan.shards, found, strict=True))
    return Holding(
        reports={s.index: f.report for s, f in pairs if f is not None and f.report is not None},
        rebuilt=tuple(s.index for s, f in pairs if f is not None and f.rebuilt),
        damaged={s.index: f.damage for s, f in pairs if f is not None and f.damage is not None},
        missing=tuple(s.index for s, f in pairs if f is None),
    )


@dataclass(frozen=True)
class _Part:
    report: ShardReport | None = None
    rebuilt: bool = False
    damage: str | None = None


def _look_at_part(out: AnyPath, header: PlanHeader, shard: Shard) -> _Part | None:
    file = out / shard.part
    if not file.exists():
        return None
    try:
        inside = read_footer_report(file)
    except DamagedError as error:
        return _Part(damage=str(error))
    fingerprints = (inside.job_fingerprint, inside.input_fingerprint, inside.shard_id)
    if fingerprints != (header.job_fingerprint, header.input_fingerprint, shard.id):
        return _Part(damage=f"{shard.part}: its footer names another job, input or shard")
    written = written_report(out, shard)
    known = written.file if written else None
    if known and (known.size_bytes, known.version) == seen(file):
        return _Part(report=written)
    return _read_in_full(out, shard, file, inside, written)


def written_report(out: AnyPath, shard: Shard) -> ShardReport | None:
    """Return the part's report, if it is there and whole."""
    path = out / layout.report_path(shard.part)
    if not path.is_file():
        return None
    try:
        return read_json(path, ShardReport)
    except DamagedError:
        return None  # the caller reads the part in full and rebuilds it from the footer


def _read_in_full(
    out: AnyPath, shard: Shard, file: AnyPath, inside: ShardReport, written: ShardReport | None
) -> _Part:
    sha256 = file_sha256(file)
    if not (out / layout.commit_path(shard.part, sha256)).is_file():
        return _Part(damage=f"{shard.part}: its bytes are not those that were committed")
    described = part_file(file, sha256)
    if written is not None and written.file is not None and written.file.sha256 == sha256:
        return _Part(report=written.model_copy(update={"file": described}), rebuilt=True)
    cost = None if inside.price is None else inside.price.of(inside.tally.charged_s)
    tally = inside.tally.model_copy(update={"bytes_out": described.size_bytes, "cost": cost})
    report = inside.model_copy(update={"file": described, "tally": tally})
    return _Part(report=report, rebuilt=True)


def read_footer_report(file: AnyPath) -> ShardReport:
    """Read the report that a part carries in its footer.

    Raises:
        DamagedError: the footer can't be read, or carries none.
    """
    try:
        metadata = parquet_metadata(file)[0].metadata or {}
    except (pa.ArrowException, OSError) as error:
        msg = f"{file.name}: its footer can't be read ({error})"
        raise DamagedError(msg) from error
    try:
        return ShardReport.model_validate_json(metadata[layout.FOOTER_KEY.encode()])
    except (KeyError, ValueError) as error:
        msg = f"{file.name}: its footer carries no headrace report"
        raise DamagedError(msg) from error


def repair(out: AnyPath, plan: Plan, holding: Holding) -> None:
    """Write the rebuilt reports, move damaged parts aside, take back an untrue `_SUCCESS`."""
    for index in holding.rebuilt:
        report = holding.reports[index]
        replace(out / layout.report_path(plan.shards[index].part), as_json(report), own_tmp(out))
    for index in holding.damaged:
        _move_aside(out, plan.shards[index].part)
    if not holding.complete and (out / layout.SUCCESS).exists():
        remove(out / layout.SUCCESS)


def _move_aside(out: AnyPath, part: str) -> None:
    at = 0
    while (out / layout.BROKEN / f"{part}.{at}").exists():
        at += 1
    move(out, part, f"{layout.BROKEN}/{part}.{at}")
