import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.report import Price, Rows, Seconds, Tally, WorkerRecord, per

COUNTS = st.integers(0, 10**9)
ROWS = st.builds(Rows, in_=COUNTS, good=COUNTS, null=COUNTS, errors=COUNTS)
# Eighths add up exactly, in any order.
EIGHTHS = st.integers(0, 10**6).map(lambda n: n / 8)
TALLIES = st.builds(
    Tally,
    shards=COUNTS,
    rows=ROWS,
    tokens=COUNTS,
    padded_tokens=COUNTS,
    bytes_in=COUNTS,
    bytes_out=COUNTS,
    seconds=st.builds(Seconds, read_s=EIGHTHS, write_s=st.none() | EIGHTHS),
    charged_s=EIGHTHS,
    cost=st.none() | EIGHTHS,
    batches=COUNTS,
    oom_halvings=COUNTS,
    shapes=st.dictionaries(st.sampled_from(["4 x 16", "2 x 32"]), st.integers(1, 9)),
)


@given(TALLIES, TALLIES, TALLIES)
def test_tallies_add_up_in_any_order(a, b, c):
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Tally() == a


def test_every_field_of_a_tally_is_added():
    seconds = Seconds(**dict.fromkeys(Seconds.model_fields, 1.5))
    one = Tally(
        shards=1,
        rows=Rows(in_=3, good=1, null=1, errors=1),
        tokens=10,
        padded_tokens=16,
        bytes_in=5,
        bytes_out=6,
        seconds=seconds,
        charged_s=0.5,
        cost=0.25,
        batches=2,
        oom_halvings=1,
        shapes={"4 x 16": 2},
        tokenized={"cudf": 2, "tokenizers": 1},
        device_faults={"RuntimeError in read": 1},
        store_faults={"SlowDown": 1},
    )
    assert set(one.model_fields_set) == set(Tally.model_fields)  # a new field must be added here
    assert one + one == Tally(
        shards=2,
        rows=Rows(in_=6, good=2, null=2, errors=2),
        tokens=20,
        padded_tokens=32,
        bytes_in=10,
        bytes_out=12,
        seconds=Seconds(**dict.fromkeys(Seconds.model_fields, 3.0)),
        charged_s=1.0,
        cost=0.5,
        batches=4,
        oom_halvings=2,
        shapes={"4 x 16": 4},
        tokenized={"cudf": 4, "tokenizers": 2},
        device_faults={"RuntimeError in read": 2},
        store_faults={"SlowDown": 2},
    )


def test_different_shapes_stand_side_by_side():
    total = Tally(shapes={"4 x 16": 1}) + Tally(shapes={"2 x 32": 3, "4 x 16": 1})
    assert total.shapes == {"4 x 16": 2, "2 x 32": 3}


def test_an_unknown_cost_makes_the_sum_unknown():
    assert (Tally(cost=1.0) + Tally(cost=None)).cost is None
    assert (Tally(cost=None) + Tally(cost=1.0)).cost is None
    assert (Tally(cost=1.0) + Tally(cost=0.0)).cost == 1.0


def test_an_unknown_write_time_makes_only_that_sum_unknown():
    total = Seconds(read_s=1.0, write_s=None) + Seconds(read_s=2.0, write_s=3.0)
    assert total.write_s is None
    assert total.read_s == 3.0


def test_per_is_unknown_without_a_cost_or_a_count():
    assert per(2.0, 4_000, 1_000) == 0.5
    assert per(None, 4_000, 1_000) is None
    assert per(2.0, 0, 1_000) is None
    assert per(0.0, 10, 1) == 0.0


def test_padding_share_is_unknown_before_a_token_is_computed():
    assert Tally().padding_share is None
    assert Tally(tokens=3, padded_tokens=4).padding_share == 0.25


def test_a_price_is_by_the_hour():
    price = Price(worker_per_hour=3.6, currency="EUR", source="list", date=None)
    assert price.of(1_000.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("rows", "adds_up"),
    [
        (Rows(), True),
        (Rows(in_=6, good=3, null=2, errors=1), True),
        (Rows(in_=6, good=3, null=2, errors=0), False),
        (Rows(in_=5, good=3, null=2, errors=1), False),
    ],
)
def test_rows_add_up_or_not(rows, adds_up):
    assert rows.adds_up is adds_up


def test_rows_are_written_as_in_and_read_back():
    rows = Rows(in_=6, good=3, null=2, errors=1)
    text = rows.model_dump_json(by_alias=True)
    assert text == '{"in":6,"good":3,"null":2,"errors":1}'
    assert Rows.model_validate_json(text) == rows


def test_a_worker_lives_from_start_to_last_sight():
    record = WorkerRecord(
        name="w",
        invocation="i",
        host="h",
        pid=1,
        started_unix_s=100.0,
        last_seen_unix_s=142.5,
        closed=False,
        startup_s=0.0,
        idle_s=0.0,
        wasted_s=0.0,
        shards_s=0.0,
        price=None,
    )
    assert record.worker_s == 42.5
