import io
import json
import pickle

import pytest
from rich.console import Console

from headrace.flows.show import (
    Shown,
    console_for,
    report_view,
    run_view,
    status_view,
    verification_view,
)
from headrace.schemas.report import Cost, Ledger, Rows, RunReport, Seconds, ShardCounts, Tally
from headrace.schemas.status import Status
from headrace.schemas.verify import Verification

ROWS = Rows(in_=12_345, good=12_000, null=300, errors=45)
PRICED = Cost(total=0.5, per_1k_rows=0.04, per_1m_tokens=2.0, per_good_row=0.00004, currency="EUR")
FREE = Cost(total=None, per_1k_rows=None, per_1m_tokens=None, per_good_row=None, currency=None)


def run_report(**changes):
    known = {
        "status": "done",
        "name": "unit",
        "rows": ROWS,
        "shards": ShardCounts(total=5, committed=3, skipped=2),
        "seconds": 100.0,
        "startup_s": 20.0,
        "rows_per_s": 150.0,
        "tokens": 250_000,
        "padding_share": 0.125,
        "cost": PRICED,
        "ledger": Ledger(
            worker_s=100.0,
            shards_s=70.0,
            startup_s=20.0,
            idle_s=6.0,
            wasted_s=4.0,
            estimated=False,
        ),
        "output": "/data/out",
        "report": "/data/out/_headrace/run.json",
        "invocation": "i",
        "device": "cpu",
        "precision": "fp32",
        "tally": Tally(seconds=Seconds(read_s=1.0, forward_s=3.0)),
    }
    return RunReport(**known | changes)


def text_of(view, value, width=200):
    console = Console(file=io.StringIO(), width=width)
    console.print(view(value))
    return console.file.getvalue()


def test_a_run_shows_rows_shards_speed_cost_and_output():
    text = text_of(run_view, run_report())
    for piece in (
        "headrace run 'unit': done",
        "12,345 in = 12,000 good + 300 null + 45 errors",
        "3 committed now, 2 already there, of 5",
        "150.0 rows/s after start-up, 120.0 rows/s with it",
        "100.0 s, of which 20.0 s start-up",
        "cpu, fp32",
        "250,000, and padding of 12.5%",
        "0.500000 EUR, 0.040000 per 1,000 rows, 2.000000 per million tokens",
        "/data/out",
    ):
        assert piece in text


def test_a_run_that_failed_says_why_and_what():
    shards = ShardCounts(total=5, committed=3, skipped=1, failed=("part-1",))
    failures = {"part-1": "ValueError: no (3 attempts)"}
    text = text_of(
        run_view, run_report(status="failed", reason="so it is", shards=shards, failures=failures)
    )
    for piece in ("'unit': failed", "so it is", "1 failed", "part-1: ValueError: no (3 attempts)"):
        assert piece in text


def test_what_is_unknown_is_not_shown_as_zero():
    text = text_of(run_view, run_report(cost=FREE, rows_per_s=None, padding_share=None))
    assert "unknown without a price" in text
    assert "rows/s" not in text
    assert "padding" not in text


@pytest.mark.parametrize(
    "odd", ["/data/[raw]/out", "/data/[/x]/out", "/data/[bold red]x/out", "/data/:smile:/out"]
)
def test_no_path_and_no_reason_is_taken_for_markup(odd):
    """A folder may be called `[raw]`: Rich would swallow it, or raise at `[/x]`."""
    value = run_report(output=odd, reason=odd, failures={"part": odd})
    assert text_of(run_view, value).count(odd) == 3
    status = STATUS.model_copy(update={"damaged": {"part": odd}})
    assert odd in text_of(status_view, status)
    faulty = VERIFICATION.model_copy(update={"ok": False, "faults": (odd,)})
    assert odd in text_of(verification_view, faulty)


def test_the_bill_shows_spans_and_ledger():
    text = text_of(report_view, run_report())
    lines = {
        line.replace("│", "").split()[0]: line for line in text.splitlines() if line.strip("─ │")
    }
    assert "3.00" in lines["forward"]
    assert "75.0%" in lines["forward"]
    assert "100.00" in lines["all"]
    assert "0.350000" in lines["shards"]  # 70 of 100 s of 0.5 EUR
    assert "cost (EUR)" in text
    assert "killed" not in text


def test_the_bill_says_what_was_estimated_and_what_is_unknown():
    ledger = run_report().ledger.model_copy(update={"estimated": True})
    tally = Tally(seconds=Seconds(read_s=1.0, write_s=None))
    text = text_of(report_view, run_report(ledger=ledger, cost=FREE, tally=tally))
    assert "A worker was killed" in text
    assert "unknown" in next(line for line in text.splitlines() if "write" in line)
    assert "EUR" not in text


def test_a_run_on_a_gpu_says_which_rows_took_which_way():
    ways = {"cudf": 12_000, "tokenizers": 300}
    tally = Tally(tokenized=ways, device_faults={"ValueError in read": 2})
    text = text_of(run_view, run_report(tally=tally))
    assert "12,000 rows by cudf, 300 rows by tokenizers" in text
    assert "2 x ValueError in read" in text
    assert "tokenized" not in text_of(run_view, run_report(tally=Tally(tokenized={"cudf": 1})))


def test_a_bill_without_a_second_can_be_shown():
    ledger = Ledger(
        worker_s=0.0, shards_s=0.0, startup_s=0.0, idle_s=0.0, wasted_s=0.0, estimated=False
    )
    assert "ledger" in text_of(report_view, run_report(ledger=ledger, tally=Tally()))


STATUS = Status(
    output="/data/out",
    name="unit",
    complete=False,
    success=False,
    rows=ROWS,
    rows_planned=20_000,
    shards_committed=3,
    shards_missing=1,
    damaged={"part-1": "part-1: its footer can't be read"},
)
VERIFICATION = Verification(
    output="/data/out",
    ok=True,
    faults=(),
    rows=ROWS,
    rows_planned=12_345,
    shards=5,
    shards_planned=5,
    bytes_read=99_999,
)


def test_a_status_says_how_far_a_run_has_come():
    text = text_of(status_view, STATUS)
    for piece in ("not complete", "_SUCCESS not there", "3 committed of 5", "20,000 rows"):
        assert piece in text
    assert "its footer can't be read" in text
    done = STATUS.model_copy(update={"complete": True, "success": True, "damaged": {}})
    assert "unit: complete, _SUCCESS there" in text_of(status_view, done)


def test_a_verification_holds_or_names_its_faults():
    text = text_of(verification_view, VERIFICATION)
    assert "/data/out: holds" in text
    assert "5 shards, 99,999 bytes read" in text
    faulty = VERIFICATION.model_copy(update={"ok": False, "faults": ("one", "two")})
    text = text_of(verification_view, faulty)
    assert "FAULTY" in text
    assert "one" in text
    assert "two" in text


SHOWN = [
    Shown(run_report(), run_view),
    Shown(run_report(), report_view),
    Shown(STATUS, status_view),
    Shown(VERIFICATION, verification_view),
]


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.view.__name__)
def test_a_result_shows_itself_everywhere(shown):
    assert "/data/out" in repr(shown)
    html = shown._repr_html_()
    assert html.startswith("<pre")
    assert "/data/out" in html
    assert text_of(lambda value: value, shown).strip()
    assert json.loads(shown.json())["output"] == "/data/out"


def test_a_result_has_the_fields_of_its_value():
    shown = Shown(run_report(), run_view)
    assert shown.status == "done"
    assert shown.rows == ROWS
    with pytest.raises(AttributeError):
        shown.nothing  # noqa: B018
    assert pickle.loads(pickle.dumps(shown)) == shown


def test_rows_are_called_in_in_json():
    assert json.loads(Shown(run_report(), run_view).json())["rows"]["in"] == 12_345


def test_human_text_goes_to_stderr_unless_stdout_is_a_terminal(monkeypatch):
    assert console_for().stderr  # under pytest stdout is no terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert not console_for().stderr
    assert console_for(to_stderr=True).stderr
