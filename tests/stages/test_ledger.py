import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.report import Price
from headrace.stages.ledger import WorkerLedger


class Clock:
    """A clock that stands still until it is moved. Starts at 1,000."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now

    def tick(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(clock):
    return WorkerLedger(clock.now, clock)


def sides(ledger):
    """Both sides of the bill, in seconds."""
    record = ledger.record("w", "i", "h", 1, None, closed=False)
    spent = record.shards_s + record.startup_s + record.idle_s + record.wasted_s
    return record.worker_s, spent


def test_time_before_ready_is_start_up_and_after_it_idle(clock, ledger):
    clock.tick(5)
    ledger.ready()
    clock.tick(3)
    record = ledger.record("w", "i", "h", 1, None, closed=True)
    assert (record.startup_s, record.idle_s, record.worker_s) == (5, 3, 8)


def test_start_up_begins_with_the_process(clock):
    ledger = WorkerLedger(clock.now - 30, clock)
    ledger.ready()
    assert ledger.startup_s == 30


def test_an_instant_belongs_to_the_shard_on_the_device(clock, ledger):
    ledger.ready()
    one, two = ledger.open("one"), ledger.open("two")
    ledger.take_device(one)
    clock.tick(10)
    ledger.leave_device()
    assert (ledger.charged(one), ledger.charged(two)) == (10, 0)


def test_with_nobody_on_the_device_the_open_shards_share(clock, ledger):
    ledger.ready()
    one = ledger.open("one")
    clock.tick(3)
    two = ledger.open("two")
    clock.tick(4)
    three = ledger.open("three")
    clock.tick(9)
    assert ledger.charged(one) == 3 + 2 + 3
    assert ledger.charged(two) == 2 + 3
    assert ledger.charged(three) == 3


def test_the_device_passes_from_shard_to_shard(clock, ledger):
    ledger.ready()
    one, two = ledger.open("one"), ledger.open("two")
    ledger.take_device(one)
    clock.tick(1)
    ledger.take_device(two)
    clock.tick(2)
    ledger.leave_device()
    clock.tick(4)
    assert ledger.close(one, wasted=False) == 1 + 2
    clock.tick(8)
    assert ledger.close(two, wasted=False) == 2 + 2 + 8
    assert ledger.shards_s == 15


def test_a_closed_attempt_is_a_shard_s_or_wasted(clock, ledger):
    ledger.ready()
    for wasted in (True, False):
        account = ledger.open("one")
        clock.tick(7)
        assert ledger.close(account, wasted=wasted) == 7
    assert (ledger.wasted_s, ledger.shards_s, ledger.idle_s) == (7, 7, 0)


def test_what_is_open_counts_as_wasted_in_a_record(clock, ledger):
    ledger.ready()
    account = ledger.open("one")
    clock.tick(6)
    assert ledger.record("w", "i", "h", 1, None, closed=False).wasted_s == 6
    ledger.close(account, wasted=False)
    record = ledger.record("w", "i", "h", 1, None, closed=True)
    assert (record.wasted_s, record.shards_s) == (0, 6)


def test_a_shard_before_ready_is_a_shard_s_time(clock, ledger):
    account = ledger.open("one")
    clock.tick(2)
    ledger.ready()
    assert ledger.close(account, wasted=False) == 2
    assert ledger.startup_s == 0


def test_a_record_says_who_and_at_what_price(clock, ledger):
    price = Price(worker_per_hour=1.0, currency="USD", source="job", date=None)
    clock.tick(5)
    record = ledger.record("name", "call", "host", 42, price, closed=True)
    assert (record.name, record.invocation, record.host, record.pid) == ("name", "call", "host", 42)
    assert (record.price, record.closed) == (price, True)
    assert (record.started_unix_s, record.last_seen_unix_s) == (1_000.0, 1_005.0)


# Every span is a multiple of 60 s, so that two to six shares of it are whole seconds.
STEPS = st.one_of(
    st.tuples(st.just("tick"), st.integers(1, 50)),
    st.tuples(st.just("open"), st.just(0)),
    st.tuples(st.just("take"), st.integers(0, 5)),
    st.tuples(st.just("leave"), st.just(0)),
    st.tuples(st.sampled_from(["close", "waste"]), st.integers(0, 5)),
    st.tuples(st.just("ready"), st.just(0)),
)


class Rule:
    """The rule of the ledger, spelled out second by second of a minute's multiple."""

    def __init__(self):
        self.open, self.device, self.ready = [], None, False
        self.charged, self.other = {}, {"startup": 0, "idle": 0, "shards": 0, "wasted": 0}

    def tick(self, seconds):
        if self.device is not None:
            self.charged[self.device] += seconds
        elif self.open:
            for name in self.open:
                self.charged[name] += seconds // len(self.open)
        else:
            self.other["idle" if self.ready else "startup"] += seconds


@given(st.lists(STEPS, max_size=60))
def test_every_second_of_any_schedule_is_accounted_for(steps):
    clock = Clock()
    ledger, rule, accounts = WorkerLedger(clock.now, clock), Rule(), {}
    for serial, (what, number) in enumerate(steps):
        which = rule.open[number % len(rule.open)] if rule.open else None
        if what == "tick":
            clock.tick(60 * number)
            rule.tick(60 * number)
        elif what == "ready":
            ledger.ready()
            rule.ready = True
        elif what == "leave":
            ledger.leave_device()
            rule.device = None
        elif what == "open" and len(rule.open) < 6:
            accounts[serial] = ledger.open(str(serial))
            rule.open.append(serial)
            rule.charged[serial] = 0
        elif what == "take" and which is not None:
            ledger.take_device(accounts[which])
            rule.device = which
        elif what in ("close", "waste") and which is not None and which != rule.device:
            seconds = ledger.close(accounts[which], wasted=what == "waste")
            assert seconds == rule.charged[which]
            rule.other["wasted" if what == "waste" else "shards"] += seconds
            rule.open.remove(which)
    elapsed, spent = sides(ledger)
    assert spent == elapsed == clock.now - 1_000.0
    assert all(ledger.charged(accounts[at]) == rule.charged[at] for at in rule.open)
    assert {
        "startup": ledger.startup_s,
        "idle": ledger.idle_s,
        "shards": ledger.shards_s,
        "wasted": ledger.wasted_s,
    } == rule.other
