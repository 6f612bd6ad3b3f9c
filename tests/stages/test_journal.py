import json
import os
import threading
import time

import pytest

from headrace.schemas import layout
from headrace.schemas.report import Price, WorkerRecord
from headrace.stages import journal as module
from headrace.stages.journal import Journal, now_unix_s, process_started_unix_s
from headrace.stages.ledger import WorkerLedger
from headrace.stages.store import own_tmp, read_json

PRICE = Price(worker_per_hour=2.0, currency="EUR", source="list", date="2026-01-01")


@pytest.fixture
def journal(tmp_path):
    ledger = WorkerLedger(now_unix_s() - 5)
    made = Journal(tmp_path, "call", ledger, PRICE)
    yield made
    made.close()


def record_of(journal, out):
    return read_json(out / layout.WORKERS / f"{journal.name}.json", WorkerRecord)


def test_the_first_record_is_there_at_once(journal, tmp_path):
    record = record_of(journal, tmp_path)
    assert record.name == journal.name
    assert record.name.startswith("call-")
    assert (record.invocation, record.pid, record.price) == ("call", os.getpid(), PRICE)
    assert not record.closed
    assert record.worker_s == pytest.approx(5, abs=2)


def test_closing_writes_the_last_record_once(journal, tmp_path):
    journal.close()
    first = record_of(journal, tmp_path)
    assert first.closed
    journal.close()
    assert record_of(journal, tmp_path) == first
    assert list(own_tmp(tmp_path).iterdir()) == []


def test_a_record_holds_both_sides_of_the_ledger(journal, tmp_path):
    journal.close()
    record = record_of(journal, tmp_path)
    spent = record.startup_s + record.idle_s + record.wasted_s + record.shards_s
    assert spent == pytest.approx(record.worker_s, rel=1e-3)


def test_the_heart_beats(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.02)
    journal = Journal(tmp_path, "call", WorkerLedger(now_unix_s()), None)
    first = record_of(journal, tmp_path).last_seen_unix_s
    deadline = time.monotonic() + 20
    while record_of(journal, tmp_path).last_seen_unix_s == first:
        assert time.monotonic() < deadline, "no heartbeat came"
        time.sleep(0.01)
    journal.close()
    assert "headrace-journal" not in {thread.name for thread in threading.enumerate()}


def test_a_heart_that_meets_a_full_disk_goes_on_beating(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.02)
    journal = Journal(tmp_path, "call", WorkerLedger(now_unix_s()), None)
    refused = threading.Event()

    def full(*_):
        refused.set()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "replace", full)
        assert refused.wait(20)
        with pytest.raises(OSError, match="No space"):
            journal.beat()  # a shard's own record is not passed over
    first = record_of(journal, tmp_path).last_seen_unix_s
    deadline = time.monotonic() + 20
    while record_of(journal, tmp_path).last_seen_unix_s == first:
        assert time.monotonic() < deadline, "no heartbeat came"
        time.sleep(0.01)
    journal.close()


def test_a_record_is_plain_json(journal, tmp_path):
    text = (tmp_path / layout.WORKERS / f"{journal.name}.json").read_text()
    assert set(json.loads(text)) == set(WorkerRecord.model_fields)


def test_the_process_started_before_now():
    assert 0 <= now_unix_s() - process_started_unix_s() < 24 * 3600
