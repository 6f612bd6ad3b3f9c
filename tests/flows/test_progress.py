import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from headrace.flows import progress as module
from headrace.flows.progress import LINE_EVERY_S, Progress, sizes_line
from headrace.schemas.plan import PackSize, Shard, Slice
from headrace.schemas.report import Price

SHARD = Shard(0, "1f3a9c07", (Slice("a", 0, 0, 1_000),))


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(module, "time", clock := Clock())
    return clock


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=80)


def lines(console):
    return console.file.getvalue().splitlines()


def test_a_grid_is_named_in_a_few_words(make_resolved):
    grid = make_resolved().grid
    assert sizes_line(grid) == "2 lengths up to 16"
    packs = {"shapes": (), "packs": (PackSize(tokens=1_024, rows=9), PackSize(tokens=512, rows=4))}
    assert sizes_line(grid.model_copy(update=packs)) == "packs of 1,024 tokens"


def priced(make_report, cost, currency="USD"):
    price = Price(worker_per_hour=1.0, currency=currency, source="job", date=None)
    return make_report(tokens=20_000, cost=cost, price=price)


def test_silence_is_silent(make_report):
    progress = Progress(None)
    progress.say("x")
    with progress.bar(10, 0, 1.0):
        progress.shard_done(SHARD, make_report())


def test_a_line_is_neither_wrapped_nor_taken_for_markup(console):
    Progress(console).say("a path /data/[raw]/x " + "long " * 40)
    (line,) = lines(console)
    assert line.startswith("headrace: a path /data/[raw]/x long")


@pytest.mark.usefixtures("clock")
def test_the_plan_is_said(console, make_resolved):
    resolved = make_resolved()
    header = SimpleNamespace(rows=14_000, road=resolved.road, grid=resolved.grid)
    Progress(console).plan(SimpleNamespace(header=header, shards=[SHARD] * 3))
    (line,) = lines(console)
    for piece in (
        "14,000 rows in 3 shards",
        "cpu, fp32 (as the test says)",
        "2 lengths up to 16",
        "25.0%",
    ):
        assert piece in line


def test_without_a_terminal_a_line_comes_every_thirty_seconds(console, clock, make_report):
    progress = Progress(console)
    with progress.bar(10_000, 2_000, 12.3):
        clock.now += LINE_EVERY_S - 1
        progress.shard_done(SHARD, make_report(tokens=20_000))
        assert lines(console) == ["headrace: ready after 12.3 s"]
        clock.now += 1
        progress.shard_done(replace(SHARD, index=1), priced(make_report, 0.25))
        clock.now += 1
        progress.shard_done(replace(SHARD, index=2), priced(make_report, 0.25))
    (line,) = lines(console)[1:]
    assert line == (
        "headrace: 4,000 of 10,000 rows, 67 rows/s, 1,333 tokens/s, 0.2500 USD so far, "
        "about 90 s left"
    )


def test_a_shard_that_another_run_committed_is_no_work_of_this_one(console, clock):
    progress = Progress(console)
    with progress.bar(10_000, 0, 1.0):
        clock.now += LINE_EVERY_S
        progress.shard_done(SHARD, None)
    assert lines(console)[1] == "headrace: 1,000 of 10,000 rows, 0 rows/s, 0 tokens/s"


def test_a_terminal_gets_a_bar(clock, make_report):
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    progress = Progress(console)
    with progress.bar(1_000, 0, 1.0):
        clock.now += 10
        progress.shard_done(SHARD, priced(make_report, 0.5, "EUR"))
    text = console.file.getvalue()
    assert "1,000 of 1,000 rows, 100 rows/s, 2,000 tokens/s, 0.5000 EUR so far" in text


def test_a_bar_that_is_cut_off_gives_the_terminal_back(make_report):
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    progress = Progress(console)
    with pytest.raises(KeyboardInterrupt), progress.bar(1_000, 0, 1.0):
        raise KeyboardInterrupt
    progress.shard_done(SHARD, make_report())  # a late one does no harm
    assert console.file.getvalue().endswith("\x1b[?25h")  # the cursor is shown again
