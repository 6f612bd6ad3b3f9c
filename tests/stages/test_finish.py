import pytest

from headrace.schemas import layout
from headrace.schemas.report import Price, Rows, RunReport, WorkerRecord
from headrace.stages.finish import finish
from headrace.stages.holding import look_at
from headrace.stages.store import as_json, own_tmp, read_json

PRICE = Price(worker_per_hour=3_600.0, currency="USD", source="job", date=None)


def end(run, **changes):
    known = {
        "invocation": "unit",
        "status": "done",
        "reason": None,
        "failures": {},
        "seconds": 12.0,
        "startup_s": 2.0,
    }
    return finish(run.out, run.plan, look_at(run.out, run.plan), **known | changes)


def work(run, lived_s, name="w"):
    """Write a worker's journal."""
    record = WorkerRecord(
        name=name,
        invocation="unit",
        host="h",
        pid=1,
        started_unix_s=0.0,
        last_seen_unix_s=lived_s,
        closed=True,
        startup_s=2.0,
        idle_s=1.0,
        wasted_s=0.0,
        shards_s=run.place.ledger.shards_s,
        price=PRICE,
    )
    file = run.out / layout.WORKERS / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(as_json(record))


@pytest.fixture
def run(tiny_run):
    run = tiny_run(price=PRICE)
    run.compute(0, 1, 2)
    return run


def test_a_whole_output_gets_success_and_a_report(run):
    work(run, 100.0)
    report = end(run)
    assert (run.out / layout.SUCCESS).read_bytes() == b""
    assert read_json(run.out / layout.RUN, RunReport) == report
    assert report.status == "done"
    assert report.rows == Rows(in_=14, good=9, null=2, errors=3)
    assert (report.shards.total, report.shards.committed, report.shards.skipped) == (3, 3, 0)
    assert report.rows_per_s == pytest.approx(1.4)
    assert report.cost.total == pytest.approx(100.0)
    assert report.cost.per_good_row == pytest.approx(100.0 / 9)
    assert report.ledger.worker_s == 100.0
    assert report.ledger.shards_s == run.place.ledger.shards_s
    assert (report.device, report.precision) == ("cpu", "fp32")
    assert report.tokens == report.tally.tokens > 0


def test_an_incomplete_output_gets_a_report_and_no_success(tiny_run):
    run = tiny_run()
    run.compute(0)
    failures = {run.shards[1].part: "why (3 attempts)"}
    report = end(run, status="failed", reason="1 of 3 shards failed", failures=failures)
    assert not (run.out / layout.SUCCESS).exists()
    assert read_json(run.out / layout.RUN, RunReport) == report
    assert report.shards.failed == (run.shards[1].part,)
    assert report.failures == failures
    assert report.reason == "1 of 3 shards failed"
    assert report.rows.in_ == 5


def test_a_second_call_computes_nothing_and_says_so(run):
    end(run)
    report = end(run, invocation="later")
    assert (report.shards.committed, report.shards.skipped) == (0, 3)
    assert report.rows_per_s is None
    assert report.rows.in_ == 14
    assert (run.out / layout.SUCCESS).exists()


def test_a_second_call_leaves_the_bill_of_a_run_that_ended_well(run):
    first = end(run)
    end(run, invocation="later")
    assert read_json(run.out / layout.RUN, RunReport) == first


@pytest.mark.parametrize("before", ["failed", "damaged"])
def test_a_second_call_replaces_the_bill_of_a_run_that_did_not(run, before):
    end(run, status="failed")
    if before == "damaged":
        (run.out / layout.RUN).write_bytes(b"{")
    report = end(run, invocation="later")
    assert read_json(run.out / layout.RUN, RunReport) == report


def test_a_second_call_leaves_the_bill_of_the_first(run):
    work(run, 100.0)
    first = end(run)
    end(run, invocation="later")
    assert read_json(run.out / layout.RUN, RunReport) == first


@pytest.mark.parametrize("content", [None, b"{"])
def test_a_bill_that_is_lost_is_written_anew(run, content):
    if content is not None:
        (run.out / layout.RUN).write_bytes(content)
    report = end(run, invocation="later")
    assert read_json(run.out / layout.RUN, RunReport) == report


def test_a_bill_of_a_run_that_failed_is_replaced(run):
    end(run, status="interrupted", reason="interrupted")
    assert end(run, invocation="later") == read_json(run.out / layout.RUN, RunReport)


def test_the_bill_learns_of_a_worker_that_was_killed_since(run):
    """A part was damaged and computed again, and that run died before its end."""
    work(run, 100.0)
    end(run)
    work(run, 50.0, name="killed")
    end(run, invocation="later")
    bill = read_json(run.out / layout.RUN, RunReport)
    assert bill.cost.total == pytest.approx(150.0)
    assert bill.ledger.worker_s == 150.0


def test_without_a_worker_s_price_the_cost_is_unknown(run):
    assert end(run).cost.total is None


def test_temporary_files_are_cleaned(run):
    (own_tmp(run.out) / "left.tmp").touch()
    end(run)
    assert not (run.out / layout.TMP).exists() or not any((run.out / layout.TMP).iterdir())
