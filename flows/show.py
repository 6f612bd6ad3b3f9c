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

from headrace.schemas.machine import GpuRoom, Machine
from headrace.schemas.plan import MemoryFit, ShapeGrid
from headrace.schemas.preview import Preview
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
    table = _lines(f"headrace run {run.name!r}: {run.status}")
    if run.reason:
        _row(table, "why", run.reason)
    _add_rows(table, run.rows)
    shards = run.shards
    done = f"{shards.committed} committed now, {shards.skipped} already there, of {shards.total}"
    _row(table, "shards", f"{done}; {len(shards.failed)} failed" if shards.failed else done)
    for part, why in run.failures.items():
        _row(table, "failed", f"{part}: {why}")
    if run.rows_per_s is not None:
        with_startup = run.rows_per_s * (run.seconds - run.startup_s) / run.seconds
        _row(
            table,
            "speed",
            f"{run.rows_per_s:,.1f} rows/s after start-up, {with_startup:,.1f} rows/s with it",
        )
    _row(table, "time", f"{run.seconds:,.1f} s, of which {run.startup_s:,.1f} s start-up")
    _row(table, "device", f"{run.device}, {run.precision}")
    if run.padding_share is not None:
        _row(table, "tokens", f"{run.tokens:,}, and padding of {run.padding_share:.1%}")
    _row(table, "cost", _money(run.cost))
    _row(table, "output", run.output)
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
        _row(table, name.removesuffix("_s"), figure, share)
    _row(table, "(waiting)", f"{waited_s or 0.0:,.2f}", "")
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
        _row(table, *cells)
    if ledger.estimated:
        table.caption = "A worker was killed; its end is estimated by its last heartbeat."
    return table


def preview_view(plan: Preview) -> RenderableType:
    """What a run would do."""
    table = _lines(f"headrace plan {plan.name!r}: nothing was run or written")
    _row(table, "input", f"{plan.rows:,} rows in {plan.files:,} files")
    _row(table, "shards", f"{plan.shards:,}, the largest of {plan.largest_shard_rows:,} rows")
    road = plan.road
    _row(table, "road", f"{road.device}, {road.precision}, {road.execution}: {road.reason}")
    if road.text_reason:
        way = f"read by {road.frame}, tokenized by {road.tokenizer}"
        _row(table, "texts", f"{way}: {road.text_reason}")
    _row(table, "result", _result(plan))
    _row(table, "shapes", _shapes(plan.grid))
    _row(table, "padding", f"about {plan.grid.padding_share:.1%} of the computed tokens")
    _row(table, "tokens", f"about {plan.estimated_tokens:,} (from {plan.grid.sample_rows:,} rows)")
    if plan.estimated_forward_s is not None:
        _row(table, "time", f"about {plan.estimated_forward_s:,.0f} s on one worker like this one")
    money = "unknown without a price"
    if plan.estimated_cost is not None:
        money = f"about {plan.estimated_cost:.4f} {plan.currency} (estimated), start-up not counted"
    _row(table, "cost", money)
    need, free = plan.needed_memory_bytes / 2**20, plan.free_memory_bytes / 2**20
    verdict = "fits" if plan.fits else "DOES NOT FIT: choose smaller shards"
    _row(
        table, "memory", f"about {need:,.0f} MiB beside the input, {free:,.0f} MiB free: {verdict}"
    )
    if plan.gpu_memory is not None:
        _row(table, "GPU memory", _fit(plan.gpu_memory))
    _row(table, "output", plan.output)
    return table


def _fit(memory: MemoryFit) -> str:
    parts = {
        "weights": memory.weights_bytes,
        "the largest batch": memory.activations_bytes,
        "cuDF's pool": memory.pool_bytes,
        "headroom": memory.headroom_bytes,
    }
    listed = " + ".join(f"{name} {size / 2**20:,.0f}" for name, size in parts.items() if size)
    need, there = memory.needed_bytes / 2**20, memory.available_bytes / 2**20
    return f"{need:,.0f} MiB ({listed}), {there:,.0f} MiB free"


def _result(plan: Preview) -> str:
    result = plan.result
    if result.task == "embed":
        vector = "unit vectors" if result.normalize else "vectors"
        return f"{vector} of {result.width} {result.dtype}, {result.pooling} pooling"
    if result.threshold is None:
        return f"one of {result.width} labels, top {result.top_k}"
    return (
        f"of {result.width} labels those with a probability of {result.threshold:g} or more, "
        f"at most {result.top_k}"
    )


def _shapes(grid: ShapeGrid) -> str:
    shapes = ", ".join(f"{shape.rows[0]} x {shape.length}" for shape in grid.shapes)
    return f"{len(grid.shapes)} (rows x tokens): {shapes}"


def status_view(status: Status) -> RenderableType:
    """How far a run has come."""
    table = _lines(f"headrace status {status.output}")
    total = status.shards_committed + status.shards_missing + len(status.damaged)
    state = "complete" if status.complete else "not complete"
    _row(table, "job", f"{status.name}: {state}, _SUCCESS {'' if status.success else 'not '}there")
    _row(table, "shards", f"{status.shards_committed} committed of {total}")
    _row(table, "planned", f"{status.rows_planned:,} rows")
    _add_rows(table, status.rows)
    for why in status.damaged.values():
        _row(table, "damaged", why)
    return table


def verification_view(found: Verification) -> RenderableType:
    """The proof, or the faults."""
    table = _lines(f"headrace verify {found.output}: {'holds' if found.ok else 'FAULTY'}")
    _add_rows(table, found.rows)
    _row(table, "planned", f"{found.rows_planned:,} rows in {found.shards_planned:,} shards")
    _row(table, "whole", f"{found.shards:,} shards, {found.bytes_read:,} bytes read")
    for fault in found.faults:
        _row(table, "fault", fault)
    return table


def machine_view(machine: Machine) -> RenderableType:
    """What a machine has."""
    table = _lines("headrace doctor")
    _row(table, "platform", machine.platform)
    _row(table, "cores", str(machine.cores))
    _row(table, "memory", f"{machine.memory_bytes / 2**30:,.1f} GiB")
    for gpu in machine.gpus:
        _row(table, "GPU", f"{gpu.name} ({gpu.id})")
        _row(table, "GPU memory", _room(gpu))
    if not machine.gpus:
        _row(table, "GPUs", "none")
    _row(table, "native bf16", "yes" if machine.bf16_native else "no")
    for name, version in machine.packages.items():
        _row(table, name, version)
    for name, found in machine.optional.items():
        _row(table, name, found or "not installed (optional)")
    for note in machine.notes:
        _row(table, "note", note)
    return table


def _room(gpu: GpuRoom) -> str:
    if gpu.left_bytes is None:
        return "shared with the host"
    figures = [gpu.free_bytes, gpu.pool_bytes, gpu.headroom_bytes, gpu.left_bytes]
    free, pool, headroom, left = (f"{(size or 0) / 2**30:,.1f}" for size in figures)
    return (
        f"{free} GiB free - {pool} for cuDF's pool - {headroom} headroom = "
        f"{left} for a model and its batches"
    )


def _row(table: Table, *cells: str) -> None:
    """Add a row of plain text: a path or a reason may look like Rich's markup."""
    table.add_row(*(Text(cell) for cell in cells))


def _lines(title: str) -> Table:
    table = Table(
        title=Text(title, style="bold"), title_justify="left", show_header=False, box=None
    )
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _add_rows(table: Table, rows: Rows) -> None:
    _row(
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
