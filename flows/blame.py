"""WHICH shard is at fault: how often each was tried, raised, and killed the worker it had alone."""

from collections import Counter

from headrace.schemas.errors import HeadraceError, ShardError
from headrace.schemas.plan import Shard


class Blame:
    """Counts what speaks against each shard. An answer is why a shard fails, or None: try again."""

    def __init__(self, max_attempts: int) -> None:
        """Prepare: `max_attempts` is how often a shard may raise, and how often it may kill."""
        self._max_attempts = max_attempts
        self._tries: Counter[int] = Counter()
        self._errors: Counter[int] = Counter()
        self._deaths: Counter[int] = Counter()

    def next_attempt(self, shard: Shard) -> int:
        """Number the next submission of a shard, from 1."""
        self._tries[shard.index] += 1
        return self._tries[shard.index]

    def raised(self, shard: Shard, error: BaseException) -> str | None:
        """Take note that a shard raised. A ShardError says that no second attempt can mend it."""
        self._errors[shard.index] += 1
        tries = self._errors[shard.index]
        if not isinstance(error, ShardError) and tries < self._max_attempts:
            return None
        text = (
            str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
        )
        return f"{text} ({tries} attempt{'s' * (tries > 1)})"

    def died(self, shard: Shard, *, alone: bool) -> str | None:
        """Take note that the worker of a shard died. A death in company says nothing yet."""
        if not alone:
            return None
        self._deaths[shard.index] += 1
        deaths = self._deaths[shard.index]
        if deaths < self._max_attempts:
            return None
        times = "once" if deaths == 1 else f"{deaths} times"
        return f"the worker died while it computed this shard alone, {times}"
