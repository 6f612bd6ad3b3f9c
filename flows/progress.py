"""What a user sees while a run goes on: a bar on a terminal, else a line every 30 seconds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from headrace.schemas.plan import Plan, ShapeGrid, Shard
from headrace.schemas.report import ShardReport

LINE_EVERY_S = 30.0


class Progress:
    """Says what goes on, counted from committed rows over the known total."""

    def __init__(self, console: Console | None) -> None:
        """Take the console to write to, or None for silence."""
        self._console = console
        self._rich: RichProgress | None = None
        self._task: TaskID | None = None
        self._total = self._rows = self._new_rows = self._tokens = 0
        self._cost: float | None = None
        self._currency = ""
        self._start = self._last_line = time.monotonic()

    def say(self, text: str) -> None:
        """Write a line."""
        if self._console is not None:
            self._console.print(f"headrace: {text}", highlight=False, markup=False, soft_wrap=True)

    def plan(self, plan: Plan) -> None:
        """Say what was planned."""
        header = plan.header
        self.say(
            f"{header.rows:,} rows in {len(plan.shards):,} shards; {header.road.device}, "
            f"{header.road.precision} ({header.road.reason}); {sizes_line(header.grid)}, "
            f"padding about {header.grid.padding_share:.1%}"
        )

    @contextmanager
    def bar(self, total: int, done: int, startup_s: float) -> Iterator[None]:
        """Show progress towards `total` rows, `done` of which are committed already."""
        self.say(f"ready after {startup_s:.1f} s")
        self._total, self._rows = total, done
        self._start = self._last_line = time.monotonic()
        if self._console is None or not self._console.is_terminal:
            yield
            return
        columns = (BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
        with RichProgress(*columns, console=self._console) as self._rich:
            self._task = self._rich.add_task("", total=total, completed=done, state=self._state())
            yield

    def draining(self, shards: int) -> None:
        """Say that the run ends with the shards that were begun."""
        what = "1 shard" if shards == 1 else f"{shards} shards"
        self.say(f"finishing {what} in flight; Ctrl-C again stops at once")

    def shard_done(self, shard: Shard, report: ShardReport | None) -> None:
        """Count a committed shard."""
        self._rows += shard.rows
        if report is not None:
            self._new_rows += shard.rows
            self._tokens += report.tally.tokens
            if report.tally.cost is not None and report.price is not None:
                self._cost = (self._cost or 0.0) + report.tally.cost
                self._currency = report.price.currency
        if self._rich is not None and self._task is not None:
            self._rich.update(self._task, completed=self._rows, state=self._state())
        elif time.monotonic() - self._last_line >= LINE_EVERY_S:
            self._last_line = time.monotonic()
            self.say(self._state())

    def _state(self) -> str:
        passed_s = max(1e-9, time.monotonic() - self._start)
        rate = self._new_rows / passed_s
        parts = [
            f"{self._rows:,} of {self._total:,} rows",
            f"{rate:,.0f} rows/s",
            f"{self._tokens / passed_s:,.0f} tokens/s",
        ]
        if self._cost is not None:
            parts.append(f"{self._cost:.4f} {self._currency} so far")
        if rate > 0:
            left_s = (self._total - self._rows) / rate
            parts.append(f"about {left_s:,.0f} s left")
        return ", ".join(parts)


def sizes_line(grid: ShapeGrid) -> str:
    """Name a grid's sizes in a few words."""
    if grid.packs:
        return f"packs of {grid.packs[0].tokens:,} tokens"
    return f"{len(grid.shapes)} lengths up to {grid.shapes[-1].length}"
