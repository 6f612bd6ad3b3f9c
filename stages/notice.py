"""What a worker knows of its own end: a machine that is taken back says so some seconds ahead."""

import threading
import time
from collections.abc import Callable

from headrace.schemas.errors import PreemptedError

# What encoding and committing a shard may take after its last batch.
COMMIT_RESERVE_S = 2.0


class Notice:
    """The end of a process, once it is known. Safe to use from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is known yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._end: float | None = None

    def give(self, seconds_left: float) -> None:
        """Say when the process will end. A second notice may bring the end nearer, not put off."""
        end = self._clock() + seconds_left
        with self._lock:
            self._end = end if self._end is None else min(self._end, end)

    @property
    def given(self) -> bool:
        """Whether the end is known: no shard is begun then."""
        return self._end is not None

    def check(self, passed_s: float, done_tokens: int, all_tokens: int) -> None:
        """Say whether a shard may go on, at the boundary of a batch.

        Args:
            passed_s: what its batches took up to now.
            done_tokens: padded tokens of those batches.
            all_tokens: padded tokens of all its batches.

        Raises:
            PreemptedError: at this rate it would not be committed before the end.
        """
        end = self._end
        if end is None:
            return
        left_s = end - self._clock()
        if done_tokens:
            rest_s = passed_s * (all_tokens - done_tokens) / done_tokens
            if rest_s + COMMIT_RESERVE_S <= left_s:
                return
        msg = f"the worker has {max(0.0, left_s):.0f} s left, which is not enough for this shard"
        raise PreemptedError(msg)
