"""Which shard is at fault, and when it is given up."""

import pytest

from headrace.flows.blame import Blame
from headrace.schemas.errors import HeadraceError, ShardError
from headrace.schemas.plan import Shard

ONE, OTHER = Shard(0, "id", ()), Shard(1, "id", ())


def test_attempts_are_numbered_for_each_shard():
    blame = Blame(3)
    assert [blame.next_attempt(shard) for shard in (ONE, ONE, OTHER, ONE)] == [1, 2, 1, 3]


def test_a_death_in_company_speaks_against_nobody():
    blame = Blame(1)
    assert all(blame.died(ONE, alone=False) is None for _ in range(20))


@pytest.mark.parametrize(("most", "words"), [(1, "once"), (2, "2 times"), (3, "3 times")])
def test_so_many_deaths_alone_fail_a_shard(most, words):
    blame = Blame(most)
    for _ in range(most - 1):
        assert blame.died(ONE, alone=True) is None
        assert blame.died(ONE, alone=False) is None
        assert most == 1 or blame.died(OTHER, alone=False) is None
    assert blame.died(ONE, alone=True).endswith(f"this shard alone, {words}")
    assert (blame.died(OTHER, alone=True) is None) is (most > 1)


def test_an_error_is_tried_again_and_then_told_with_its_kind():
    blame = Blame(2)
    assert blame.raised(ONE, OSError("the disk is tired")) is None
    assert blame.raised(OTHER, OSError("another")) is None
    assert blame.raised(ONE, OSError("the disk sleeps")) == "OSError: the disk sleeps (2 attempts)"


def test_deaths_and_errors_are_counted_apart():
    blame = Blame(2)
    assert blame.raised(ONE, OSError("x")) is None
    assert blame.died(ONE, alone=True) is None
    assert blame.raised(ONE, HeadraceError("said plainly")) == "said plainly (2 attempts)"


def test_what_no_second_attempt_mends_fails_at_once():
    assert Blame(5).raised(ONE, ShardError("a damaged page")) == "a damaged page (1 attempt)"
