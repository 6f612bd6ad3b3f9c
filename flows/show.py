"""How results look: one Rich table each, on a terminal and in a notebook."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.schemas.report import Cost, Rows, RunReport, Seconds
from headrace.schemas.status import Status
from headrace.schemas.verify import Verification

ValueT = TypeVar("ValueT", bound=BaseModel)
NOTEBOOK_WIDTH = 100
OVERLAP_NOTE = Text(
    "Shards overlap: one waits for the device or is written while another is computed.", style="dim"
)


@dataclass(frozen=True)
class Shown(Generic[ValueT]):
    """A result and how it shows itself. Its fields are those of `value`."""

    value: ValueT
    view: Callable[[ValueT], RenderableType]

    def __getattr__(self, name: str) -> object:
        """Give the value's own fields."""
        if name.startswith("_") or name == "value":
            raise AttributeError(name)
        return getattr(self.value, name)

    def json(self) -> str:
        """The value as one JSON object."""
        return self.value.model_dump_json(by_alias=True, indent=1)

    def __rich__(self) -> RenderableType:
        """Show on a terminal."""
        return self.view(self.value)

    def __repr__(self) -> str:
        """Show as plain text."""
        console = Console(file=io.StringIO(), width=NOTEBOOK_WIDTH, record=True)
        console.print(self.view(self.value))
        return console.export_text()

    def _repr_html_(self) -> str:
        """Show in a notebook."""
        console = Console(
            file=io.StringIO(), width=NOTEBOOK_WIDTH, record=True, force_jupyter=False
        )
        console.print(self.view(self.value))
        template = '<pre style="line-height:1.2;overflow-x:auto">{code}</pre>'
        return console.export_html(inline_styles=True, code_format=template)


def console_for(*, to_stderr: bool = False) -> Console:
    """The console for human text: stderr when stdout is not a terminal, or holds JSON."""
    return Console(stderr=to_stderr or not sys.stdout.isatty())


def run_view(run: RunReport) -> RenderableType:
    """How a run ended: one block of lines."""
    table = lines(f"headrace run {run.name!r}: {run.status}")
    if run.reason:
        row(table, "why", run.reason)
    _add_rows(table, run.rows)
    shards = run.shards
    done = f"{shards.committed} committed now, {shards.skipped} already there, of {shards.total}"
    row(table, "shards", f"{done}; {len(shards.failed)} failed" if shards.failed else done)
    for part, why in run.failures.items():
        row(table, "failed", f"{part}: {why}")
    if run.rows_per_s is not None:
        with_startup = run.rows_per_s * (run.seconds - run.startup_s) / run.seconds
        row(
            table,
            "speed",
            f"{run.rows_per_s:,.1f} rows/s after start-up, {with_startup:,.1f} rows/s with it",
        )
    row(table, "time", f"{run.seconds:,.1f} s, of which {run.startup_s:,.1f} s start-up")
    row(table, "device", f"{run.device}, {run.precision}")
    if run.padding_share is not None:
        row(table, "tokens", f"{run.tokens:,}, and padding of {run.padding_share:.1%}")
    ways, left = run.tally.tokenized, run.tally.device_faults
    if len(ways) > 1 or left:
        row(
            table, "tokenized", ", ".join(f"{count:,} rows by {way}" for way, count in ways.items())
        )
    if left:
        row(table, "left to host", ", ".join(f"{count:,} x {why}" for why, count in left.items()))
    if run.tally.oom_halvings:
        halved = f"{run.tally.oom_halvings:,} batches halved, and smaller ones from then on"
        row(table, "out of memory", halved)
    if run.tally.store_faults:
        faults = (f"{count:,} x {what}" for what, count in run.tally.store_faults.items())
        row(table, "store faults", ", ".join(faults))
    row(table, "cost", _money(run.cost))
    row(table, "output", run.output)
    return table


def report_view(run: RunReport) -> RenderableType:
    """The bill: how it ended, where the time of the shards went, and the ledger."""
    return Group(
        run_view(run), "", _spans_table(run.tally.seconds), OVERLAP_NOTE, "", _ledger_table(run)
    )


def _spans_table(seconds: Seconds) -> Table:
    """Shares are of the work: a shard that waits for the device costs nothing by waiting."""
    table = Table(title="Where the shards' time went", title_justify="left")
    table.add_column("span")
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    values: dict[str, float | None] = seconds.model_dump()
    waited_s = values.pop("wait_s")
    total = sum(value for value in values.values() if value is not None)
    for name, value in values.items():
        share = "" if value is None or not total else f"{value / total:.1%}"
        figure = "unknown" if value is None else f"{value:,.2f}"
        row(table, name.removesuffix("_s"), figure, share)
    row(table, "(waiting)", f"{waited_s or 0.0:,.2f}", "")
    return table


def _ledger_table(run: RunReport) -> Table:
    ledger = run.ledger
    table = Table(title="The ledger: every second of every worker", title_justify="left")
    for name in ("", "worker seconds"):
        table.add_column(name, justify="right" if name else "left")
    if run.cost.total is not None:
        table.add_column(f"cost ({run.cost.currency})", justify="right")
    for name, value in (
        ("shards", ledger.shards_s),
        ("start-up", ledger.startup_s),
        ("idle", ledger.idle_s),
        ("wasted", ledger.wasted_s),
        ("all workers, by their own clocks", ledger.worker_s),
    ):
        cells = [name, f"{value:,.2f}"]
        if run.cost.total is not None and ledger.worker_s:
            cells.append(f"{run.cost.total * value / ledger.worker_s:.6f}")
        row(table, *cells)
    if ledger.estimated:
        table.caption = "A worker was killed; its end is estimated by its last heartbeat."
    return table


def status_view(status: Status) -> RenderableType:
    """How far a run has come."""
    table = lines(f"headrace status {status.output}")
    total = status.shards_committed + status.shards_missing + len(status.damaged)
    state = "complete" if status.complete else "not complete"
    row(table, "job", f"{status.name}: {state}, _SUCCESS {'' if status.success else 'not '}there")
    row(table, "shards", f"{status.shards_committed} committed of {total}")
    row(table, "planned", f"{status.rows_planned:,} rows")
    _add_rows(table, status.rows)
    for why in status.damaged.values():
        row(table, "damaged", why)
    return table


def verification_view(found: Verification) -> RenderableType:
    """The proof, or the faults."""
    table = lines(f"headrace verify {found.output}: {'holds' if found.ok else 'FAULTY'}")
    _add_rows(table, found.rows)
    row(table, "planned", f"{found.rows_planned:,} rows in {found.shards_planned:,} shards")
    row(table, "whole", f"{found.shards:,} shards, {found.bytes_read:,} bytes read")
    if found.deep is not None:
        deep = found.deep
        like = deep.lowest_likeness
        low = "" if like is None else f"; the least alike by {like:.6f} of 1"
        row(
            table,
            "compared",
            f"{deep.rows_compared:,} rows of {deep.parts:,} parts with the input; "
            f"{deep.rows_recomputed:,} computed again{low}",
        )
    for fault in found.faults:
        row(table, "fault", fault)
    return table


def row(table: Table, *cells: str) -> None:
    """Add a row of plain text: a path or a reason may look like Rich's markup."""
    table.add_row(*(Text(cell) for cell in cells))


def lines(title: str) -> Table:
    """Begin a block of lines: what is named, and what is said of it."""
    table = Table(
        title=Text(title, style="bold"), title_justify="left", show_header=False, box=None
    )
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _add_rows(table: Table, rows: Rows) -> None:
    row(
        table,
        "rows",
        f"{rows.in_:,} in = {rows.good:,} good + {rows.null:,} null + {rows.errors:,} errors",
    )


def _money(cost: Cost) -> str:
    if cost.total is None:
        return "unknown without a price (price: {per_hour: …} in the job)"
    parts = [f"{cost.total:.6f} {cost.currency}"]
    if cost.per_1k_rows is not None:
        parts.append(f"{cost.per_1k_rows:.6f} per 1,000 rows")
    if cost.per_1m_tokens is not None:
        parts.append(f"{cost.per_1m_tokens:.6f} per million tokens")
    return ", ".join(parts)
