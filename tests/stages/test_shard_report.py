from datetime import UTC, datetime

import numpy as np
import pytest

from headrace.schemas.report import DeviceUse, PartFile, Price, Rows
from headrace.stages.compute import Computed
from headrace.stages.isolate import Outcome
from headrace.stages.prepare import Prepared
from headrace.stages.ragged import ragged_of
from headrace.stages.results import Results
from headrace.stages.shard_report import report_after_commit, report_before_write
from headrace.stages.tokenize import Tokens

ROWS = Rows(in_=5, good=3, null=1, errors=1)
PRICE = Price(worker_per_hour=7_200.0, currency="USD", source="job", date=None)


@pytest.fixture
def before(tiny_run):
    def make(price=PRICE, latencies_ms=(1.0, 2.0, 3.0)):
        run = tiny_run(price=price)
        use = DeviceUse(name="cpu", utilization=0.5, peak_memory_bytes=1, energy_wh=None)
        outcome = Outcome(good=3, batches=2, padded_tokens=24, oom_halvings=1, shapes={"4 x 4": 2})
        results = Results(5, run.plan.header.result)
        computed = Computed(results, outcome, list(latencies_ms), {}, use)
        tokens = Tokens(np.zeros(12, np.int32), np.array([0, 3, 7, 7, 9, 12]))
        present = np.array([True, True, False, True, True])
        prepared = Prepared(ragged_of(tokens, present, 16), {}, {"tokenizers": 4})
        report = report_before_write(
            run.shards[1],
            2,
            run.place,
            computed,
            prepared,
            datetime(2026, 1, 1, tzinfo=UTC),
            rows=ROWS,
            bytes_in=77,
            seconds={"read_s": 0.5, "forward_s": 0.25},
            charged_s=1.5,
        )
        return run, report

    return make


def test_before_the_write_all_but_the_write_is_known(before):
    run, report = before()
    tally = report.tally
    assert tally.tokenized == {"tokenizers": 4}
    assert (report.shard, report.attempt, report.shard_id) == (1, 2, run.shards[1].id)
    assert report.started == "2026-01-01T00:00:00+00:00"
    assert (tally.rows, tally.tokens, tally.padded_tokens) == (ROWS, 12, 24)
    assert (tally.bytes_in, tally.bytes_out) == (77, 0)
    assert (tally.seconds.read_s, tally.seconds.forward_s) == (0.5, 0.25)
    assert tally.seconds.write_s is None
    assert (tally.charged_s, tally.cost) == (1.5, 3.0)
    assert (tally.batches, tally.oom_halvings, tally.shapes) == (2, 1, {"4 x 4": 2})
    assert report.latency.p50_ms == 2.0
    assert report.latency.p50_ms < report.latency.p95_ms < report.latency.p99_ms <= 3.0
    assert report.file is None


def test_after_the_commit_the_rest_is_filled_in(before):
    run, report = before()
    file = PartFile(name="p", sha256="s", size_bytes=99, version="1")
    whole = report_after_commit(report, run.place, file, 0.125, 2.0, {"SlowDown": 3})
    assert whole.file == file
    assert whole.tally.bytes_out == 99
    assert whole.tally.seconds.write_s == 0.125
    assert whole.tally.seconds.read_s == 0.5
    assert (whole.tally.charged_s, whole.tally.cost) == (2.0, 4.0)
    same = {"file", "tally"}
    assert whole.model_dump(exclude=same) == report.model_dump(exclude=same)


def test_unknown_stays_unknown(before):
    run, report = before(price=None, latencies_ms=())
    assert (report.tally.cost, report.latency, report.price) == (None, None, None)
    file = PartFile(name="p", sha256="s", size_bytes=99, version="1")
    assert report_after_commit(report, run.place, file, 0.1, 2.0, {}).tally.cost is None
