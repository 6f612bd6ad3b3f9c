"""Step 12b: the bill of a whole output: the shards' reports and the workers' lives, added up."""

from collections.abc import Iterable

from headrace.schemas import layout
from headrace.schemas.report import Cost, Ledger, ShardReport, Tally, WorkerRecord, per
from headrace.stages.places import AnyPath
from headrace.stages.store import names_in, read_json


def worker_records(out: AnyPath) -> list[WorkerRecord]:
    """Read the journals of every worker of every invocation.

    Raises:
        DamagedError: one can't be read.
    """
    folder = out / layout.WORKERS
    return [read_json(folder / name, WorkerRecord) for name in names_in(folder)]


def add_up(reports: Iterable[ShardReport]) -> Tally:
    """Sum the shards' tallies."""
    return sum((report.tally for report in reports), Tally())


def ledger(tally: Tally, workers: Iterable[WorkerRecord]) -> Ledger:
    """Set the workers' lives against what they were spent on."""
    records = list(workers)
    # What workers charged to shards that no report tells of: parts that were damaged and redone.
    redone_s = max(0.0, sum(record.shards_s for record in records) - tally.charged_s)
    return Ledger(
        worker_s=sum(record.worker_s for record in records),
        shards_s=tally.charged_s,
        startup_s=sum(record.startup_s for record in records),
        idle_s=sum(record.idle_s for record in records),
        wasted_s=sum(record.wasted_s for record in records) + redone_s,
        estimated=any(not record.closed for record in records),
    )


def cost_of(tally: Tally, workers: Iterable[WorkerRecord]) -> Cost:
    """Price every second of every worker; unknown as soon as one worker had no price."""
    records = list(workers)
    prices = [record.price for record in records]
    total: float | None = None
    if records and all(price is not None for price in prices):
        total = sum(r.price.of(r.worker_s) for r in records if r.price is not None)
    currencies = {price.currency for price in prices if price is not None}
    if len(currencies) != 1:
        total = None
    return Cost(
        total=total,
        per_1k_rows=per(total, tally.rows.in_, 1_000),
        per_1m_tokens=per(total, tally.tokens, 1_000_000),
        per_good_row=per(total, tally.rows.good, 1),
        currency=currencies.pop() if len(currencies) == 1 else None,
    )
