import pytest

from headrace.schemas.errors import PreemptedError
from headrace.stages.notice import COMMIT_RESERVE_S, Notice


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def notice(clock):
    return Notice(lambda: clock[0])


def test_without_a_notice_a_shard_goes_on(notice):
    assert not notice.given
    notice.check(1e9, 0, 100)


def test_what_fits_into_the_time_goes_on_and_what_does_not_is_dropped(notice):
    notice.give(10 + COMMIT_RESERVE_S)
    assert notice.given
    notice.check(10, 50, 100)  # as long again
    with pytest.raises(PreemptedError, match="12 s left"):
        notice.check(10, 49, 100)


def test_what_has_not_begun_is_dropped(notice):
    notice.give(1e6)
    with pytest.raises(PreemptedError):
        notice.check(0, 0, 100)


def test_time_passes_and_a_second_notice_puts_nothing_off(notice, clock):
    notice.give(20)
    notice.give(1_000)
    clock[0] += 15
    with pytest.raises(PreemptedError, match="5 s left"):
        notice.check(10, 50, 100)
    notice.give(1)
    with pytest.raises(PreemptedError, match="1 s left"):
        notice.check(10, 99, 100)
