import pytest

from headrace.flows.error_ratio import too_many_errors
from headrace.flows.waves import WAVES, waves_of
from headrace.schemas.plan import Shard
from headrace.schemas.report import Rows


@pytest.mark.parametrize("count", [1, 2, 49, 50, 51, 99, 100, 101, 1_000, 12_345])
def test_shards_are_reported_in_at_most_fifty_waves_of_one_size(count):
    shards = [Shard(index, "id", ()) for index in range(count)]
    waves = waves_of(shards)
    assert 1 <= len(waves) <= WAVES
    assert [wave.index for wave in waves] == list(range(len(waves)))
    assert sum(wave.shards for wave in waves) == count
    assert {wave.shards for wave in waves[:-1]} <= {waves[0].shards}
    assert 1 <= waves[-1].shards <= waves[0].shards
    assert all(wave.left == wave.shards and not wave.done.is_set() for wave in waves)
    assert count > WAVES or len(waves) == count


def test_no_shard_no_wave():
    assert waves_of([]) == []


def rows(in_, errors):
    return Rows(in_=in_, good=in_ - errors, errors=errors)


@pytest.mark.parametrize(
    ("in_", "errors", "max_ratio", "stops"),
    [
        (0, 0, 0.0, False),
        (999, 999, 0.0, False),
        (1_000, 0, 0.0, False),
        (1_000, 1, 0.0, True),
        (1_000, 50, 0.05, False),
        (1_000, 51, 0.05, True),
        (10_000, 500, 0.05, False),
        (10_000, 10_000, 1.0, False),
    ],
)
def test_too_many_errors_are_judged_from_a_thousand_rows_on(in_, errors, max_ratio, stops):
    assert (too_many_errors(rows(in_, errors), max_ratio) is not None) is stops


def test_null_inputs_are_no_errors():
    assert too_many_errors(Rows(in_=1_000, null=1_000), 0.0) is None


def test_the_reason_says_how_many_of_how_many_and_where_to_look():
    text = too_many_errors(rows(2_000, 1_500), 0.25)
    assert text.startswith("1,500 of 2,000 rows failed, above errors.max_ratio 0.25")
    assert "_headrace/errors/" in text
