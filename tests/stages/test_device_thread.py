import threading
import time

import pytest
import torch

from headrace.stages.device_thread import DeviceThread
from headrace.stages.ledger import WorkerLedger


def test_all_work_runs_on_one_thread_of_its_own(device):
    names = {device.run(lambda: threading.current_thread().name) for _ in range(3)}
    assert len(names) == 1
    assert names.pop().startswith("headrace-device")


def test_the_thread_has_the_processor_threads_it_was_given():
    assert DeviceThread(2).run(torch.get_num_threads) == 2
    assert DeviceThread(1).run(torch.get_num_threads) == 1


def test_what_work_raises_comes_back(device):
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        device.run(fail)
    assert device.run(lambda: 7) == 7


def test_a_shard_is_charged_while_it_holds_the_device_and_not_while_it_waits(device):
    ledger = WorkerLedger(time.time())
    ledger.ready()
    one, two = ledger.open("one"), ledger.open("two")
    held, go = threading.Event(), threading.Event()

    def hold():
        held.set()
        go.wait(20)
        return "one"

    results = {}
    first = threading.Thread(target=lambda: results.update(one=device.run_for(ledger, one, hold)))
    first.start()
    held.wait(20)
    before = ledger.charged(two)
    second = threading.Thread(
        target=lambda: results.update(two=device.run_for(ledger, two, lambda: "two"))
    )
    second.start()
    time.sleep(0.05)
    assert ledger.charged(two) == before
    assert ledger.charged(one) >= 0.05
    go.set()
    first.join()
    second.join()
    assert results["one"][0] == "one"
    assert results["two"][0] == "two"
    assert results["two"][1] >= 0.05 > results["one"][1]


def test_the_device_is_given_back_when_the_work_fails(device):
    ledger = WorkerLedger(time.time())
    ledger.ready()
    account = ledger.open("one")

    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        device.run_for(ledger, account, fail)
    ledger.close(account, wasted=True)
    idle = ledger.idle_s
    time.sleep(0.02)
    assert ledger.record("w", "i", "h", 1, None, closed=True).idle_s >= idle + 0.02
