"""`headrace verify`: prove that every input row is in the output exactly once, from the files."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError
from headrace.schemas.plan import Plan, PlanHeader, Shard
from headrace.schemas.report import Rows
from headrace.schemas.verify import Rechecked, Verification
from headrace.stages.commit import CommitRecord
from headrace.stages.faults import NULL_INPUT
from headrace.stages.holding import read_footer_report
from headrace.stages.places import AnyPath, on_disk
from headrace.stages.plan import load_plan
from headrace.stages.store import file_sha256, read_json, visible_files

READERS = 4

Deeper = Callable[[Plan, Sequence[Shard]], Rechecked]


@dataclass(frozen=True)
class _Checked:
    rows: Rows = field(default_factory=Rows)
    size_bytes: int = 0
    schema: pa.Schema | None = None
    faults: tuple[str, ...] = ()


def verify(out: AnyPath, deeper: Deeper | None = None) -> Verification:
    """Read every data file in full and check it against plan, commit record and footer.

    Args:
        out: the output folder.
        deeper: compares parts that are whole with the input and the model (stages/recheck.py).

    Raises:
        DamagedError: there is no readable plan to check against.
        HeadraceError: `deeper` could not compare.
    """
    plan = load_plan(out)
    with ThreadPoolExecutor(READERS) as pool:
        checked = list(pool.map(lambda shard: _check(out, plan, shard), plan.shards))
    rows = sum((each.rows for each in checked), Rows())
    faults = [fault for each in checked for fault in each.faults]
    faults += _schema_faults(plan, checked)
    faults += _strays(out, plan)
    if not faults and rows.in_ != plan.header.rows:
        faults.append(f"expected {plan.header.rows} input rows in all, the parts have {rows.in_}")
    faults += _success_faults(out, complete=all(not each.faults for each in checked))
    whole = [shard for shard, each in zip(plan.shards, checked, strict=True) if not each.faults]
    deep = None if deeper is None else deeper(plan, whole)
    faults += deep.faults if deep else ()
    return Verification(
        output=str(out),
        ok=not faults,
        faults=tuple(faults),
        rows=rows,
        rows_planned=plan.header.rows,
        shards=len(whole),
        shards_planned=len(plan.shards),
        bytes_read=sum(each.size_bytes for each in checked),
        deep=deep,
    )


def _success_faults(out: AnyPath, *, complete: bool) -> Iterator[str]:
    success = (out / layout.SUCCESS).is_file()
    if complete and not success:
        yield f"{layout.SUCCESS}: missing though every shard is committed; run the job again"
    if success and not complete:
        yield f"{layout.SUCCESS}: there though shards are missing or faulty"


def _check(out: AnyPath, plan: Plan, shard: Shard) -> _Checked:
    file = out / shard.part
    if not file.is_file():
        return _Checked(faults=(f"{shard.part}: missing; run the job again to compute it",))
    try:
        with on_disk(file) as copy:
            rows, schema = _check_part(out, plan, shard, copy)
            return _Checked(rows, copy.stat().st_size, schema)
    except DamagedError as error:
        return _Checked(faults=(str(error),))


def _schema_faults(plan: Plan, checked: Sequence[_Checked]) -> Iterator[str]:
    """Hold every part's schema, metadata included, against the first one's."""
    pairs = [(s, c.schema) for s, c in zip(plan.shards, checked, strict=True) if c.schema]
    for shard, schema in pairs[1:]:
        first = pairs[0][1]
        if not schema.equals(first, check_metadata=True):
            yield (
                f"{shard.part}: its schema is not that of {pairs[0][0].part}; move it away and run "
                "the job again"
            )


def _check_part(out: AnyPath, plan: Plan, shard: Shard, file: Path) -> tuple[Rows, pa.Schema]:
    """Count a part's rows from its own columns; raise DamagedError at the first fault."""
    sha256 = file_sha256(file)
    record_file = out / layout.commit_path(shard.part, sha256)
    if not record_file.is_file():
        _fault(shard, f"no commit record for its bytes (sha256 {sha256[:12]}…): it was changed")
    record = read_json(record_file, CommitRecord)
    footer = read_footer_report(file)
    expected = (plan.header.job_fingerprint, plan.header.input_fingerprint, shard.id)
    for name, got in (("commit record", record), ("footer", footer)):
        if (got.job_fingerprint, got.input_fingerprint, got.shard_id) != expected:
            _fault(shard, f"its {name} names another job, input or shard")
    rows, schema = _count(file, shard, plan.header)
    for name, claimed in (("commit record", record.rows), ("footer", footer.tally.rows)):
        if claimed != rows:
            _fault(shard, f"its {name} says {_say(claimed)}, its columns say {_say(rows)}")
    if not rows.adds_up:
        _fault(shard, f"rows are lost: {_say(rows)}")
    listed = _listed_errors(out, shard, record.errors_sha256)
    if listed != rows.errors:
        _fault(shard, f"{rows.errors} rows have an error, and {listed} are listed")
    return rows, schema


def _count(file: Path, shard: Shard, header: PlanHeader) -> tuple[Rows, pa.Schema]:
    """Decode every page, its checksum checked, and count what became of the rows."""
    good = null = total = results = 0
    added = header.added_columns
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as source:
            schema = _without_report(source.schema_arrow)
            for group in range(source.num_row_groups):
                table = source.read_row_group(group)
                reasons = table.column(added.error)
                results += len(reasons) - table.column(added.results[0]).null_count
                total += len(reasons)
                good += reasons.null_count
                null += pc.sum(pc.equal(reasons, NULL_INPUT)).as_py() or 0
    except (pa.ArrowException, OSError, KeyError) as error:
        _fault(shard, f"it can't be read: {error}")
    if results != good:
        _fault(shard, f"{good} rows have no error, and {results} have a result")
    drop = header.job.errors.mode == "drop"
    errors = shard.rows - good - null if drop else total - good - null
    return Rows(in_=shard.rows, good=good, null=null, errors=errors), schema


def _without_report(schema: pa.Schema) -> pa.Schema:
    """Leave out the one entry that differs from part to part."""
    metadata = {k: v for k, v in (schema.metadata or {}).items() if k != layout.FOOTER_KEY.encode()}
    return schema.with_metadata(metadata or None)


def _listed_errors(out: AnyPath, shard: Shard, sha256: str | None) -> int:
    if sha256 is None:
        return 0
    file = out / layout.errors_path(shard.part, sha256)
    if not file.is_file():
        return 0
    if file_sha256(file) != sha256:
        _fault(shard, f"the list of its errors was changed ({file.name})")
    return len(file.read_bytes().splitlines())


def _strays(out: AnyPath, plan: Plan) -> Iterator[str]:
    """Find files that a reader of the folder would take for data."""
    known = {shard.part for shard in plan.shards}
    for path in visible_files(out):
        if path not in known:
            yield f"{path}: a file that the plan does not know, and that readers would read"


def _fault(shard: Shard, what: str) -> NoReturn:
    msg = f"{shard.part}: {what}"
    raise DamagedError(msg)


def _say(rows: Rows) -> str:
    return f"{rows.in_} in = {rows.good} good + {rows.null} null + {rows.errors} errors"
