import pytest

from headrace.schemas import layout
from headrace.schemas.errors import DamagedError
from headrace.schemas.report import Price, Rows, Tally, WorkerRecord
from headrace.stages.store import as_json
from headrace.stages.totals import add_up, cost_of, ledger, worker_records


def price(per_hour, currency="USD"):
    return Price(worker_per_hour=per_hour, currency=currency, source="job", date=None)


def worker(name="w", *, lived_s=100.0, closed=True, of=None, **seconds):
    known = {"startup_s": 0.0, "idle_s": 0.0, "wasted_s": 0.0, "shards_s": 0.0}
    return WorkerRecord(
        name=name,
        invocation="i",
        host="h",
        pid=1,
        started_unix_s=1_000.0,
        last_seen_unix_s=1_000.0 + lived_s,
        closed=closed,
        price=of,
        **known | seconds,
    )


TALLY = Tally(shards=2, rows=Rows(in_=4_000, good=2_000), tokens=8_000_000, charged_s=80.0)


def test_reports_add_up(make_report):
    reports = [make_report(tokens=at, rows=Rows(in_=1, good=1)) for at in (1, 2, 3)]
    total = add_up(reports)
    assert (total.shards, total.tokens, total.rows) == (3, 6, Rows(in_=3, good=3))
    assert add_up([]) == Tally()


def test_the_ledger_sets_lives_against_what_they_were_spent_on():
    workers = [
        worker(lived_s=100, startup_s=10, idle_s=5, wasted_s=15, shards_s=70),
        worker(lived_s=20, startup_s=4, idle_s=6, shards_s=10),
    ]
    found = ledger(TALLY, workers)
    assert found.worker_s == 120
    assert found.shards_s + found.startup_s + found.idle_s + found.wasted_s == 120
    assert (found.startup_s, found.idle_s, found.wasted_s) == (14, 11, 15)
    assert not found.estimated


def test_a_killed_worker_makes_the_ledger_an_estimate():
    assert ledger(TALLY, [worker(), worker(closed=False)]).estimated


def test_every_second_of_every_worker_is_priced():
    cost = cost_of(TALLY, [worker(of=price(36.0)), worker(lived_s=50, of=price(72.0))])
    assert cost.total == pytest.approx(2.0)
    assert cost.per_1k_rows == pytest.approx(0.5)
    assert cost.per_1m_tokens == pytest.approx(0.25)
    assert cost.per_good_row == pytest.approx(0.001)
    assert cost.currency == "USD"


UNPRICED = [
    [],
    [worker()],
    [worker(of=price(1.0)), worker()],
    [worker(of=price(1.0)), worker(of=price(1.0, "EUR"))],
]


@pytest.mark.parametrize("workers", UNPRICED, ids=["none", "free", "half", "two currencies"])
def test_without_one_price_for_all_every_cost_is_unknown(workers):
    cost = cost_of(TALLY, workers)
    assert (cost.total, cost.per_1k_rows, cost.per_1m_tokens, cost.per_good_row) == (None,) * 4


def test_per_what_was_not_counted_is_unknown():
    cost = cost_of(Tally(), [worker(of=price(36.0))])
    assert cost.total == pytest.approx(1.0)
    assert (cost.per_1k_rows, cost.per_1m_tokens, cost.per_good_row) == (None,) * 3


def test_journals_are_read_from_the_output(tmp_path):
    assert worker_records(tmp_path) == []
    folder = tmp_path / layout.WORKERS
    folder.mkdir(parents=True)
    for name in ("b", "a"):
        (folder / f"{name}.json").write_bytes(as_json(worker(name)))
    assert worker_records(tmp_path) == [worker("a"), worker("b")]
    (folder / "c.json").write_text("{")
    with pytest.raises(DamagedError, match=r"c\.json"):
        worker_records(tmp_path)
