"""Step 12c: when every shard is committed, say so; and write the run's report either way."""

from collections.abc import Mapping

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError
from headrace.schemas.plan import Plan
from headrace.schemas.report import RunReport, ShardCounts, Tally
from headrace.stages.holding import Holding
from headrace.stages.places import AnyPath
from headrace.stages.store import as_json, clean_tmp, create, own_tmp, read_json, replace
from headrace.stages.totals import add_up, cost_of, ledger, worker_records


def finish(
    out: AnyPath,
    plan: Plan,
    holding: Holding,
    *,
    invocation: str,
    status: str,
    reason: str | None,
    failures: Mapping[str, str],
    seconds: float,
    startup_s: float,
) -> RunReport:
    """Write `_SUCCESS` if the output is complete, and `_headrace/run.json`. Returns the latter."""
    clean_tmp(out)  # first: dead workers' files may be what fills the disk
    tmp = own_tmp(out)
    if status == "done":
        create(out / layout.SUCCESS, b"", tmp)
    tally = add_up(holding.reports.values())
    now = add_up(r for r in holding.reports.values() if r.invocation == invocation)
    workers = worker_records(out)
    working_s = seconds - startup_s
    report = RunReport(
        status=status,
        name=plan.header.job.name,
        rows=tally.rows,
        shards=_counts(plan, tally, now, failures),
        seconds=seconds,
        startup_s=startup_s,
        rows_per_s=now.rows.in_ / working_s if now.shards and working_s > 0 else None,
        tokens=tally.tokens,
        padding_share=tally.padding_share,
        cost=cost_of(tally, workers),
        ledger=ledger(tally, workers),
        output=str(out),
        report=str(out / layout.RUN),
        reason=reason,
        failures=dict(failures),
        invocation=invocation,
        device=plan.header.road.device,
        precision=plan.header.road.precision,
        tally=tally,
    )
    # A finished job run again computes nothing: the bill keeps the speed of the run that did.
    if now.shards or status != "done" or not _is_paid_up(out, report):
        replace(out / layout.RUN, as_json(report), tmp)
    clean_tmp(out)
    return report


def _counts(plan: Plan, tally: Tally, now: Tally, failures: Mapping[str, str]) -> ShardCounts:
    return ShardCounts(
        total=len(plan.shards),
        committed=now.shards,
        skipped=tally.shards - now.shards,
        failed=tuple(failures),
    )


def _is_paid_up(out: AnyPath, report: RunReport) -> bool:
    """Say whether the bill of a run that ended well is there and counts the same work."""
    try:
        old = read_json(out / layout.RUN, RunReport)
    except (FileNotFoundError, DamagedError):
        return False
    return (old.status, old.ledger, old.tally) == ("done", report.ledger, report.tally)
