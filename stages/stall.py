"""Ends a process whose device has been in one batch for too long: nothing gentler would stop it."""

import os
import sys
import threading
import time
from collections.abc import Callable

STALLED = 70  # the process's exit code
LOOKS = 10  # a limit


def _end(text: str) -> None:
    sys.stderr.write(f"headrace: {text}\n")
    sys.stderr.flush()
    os._exit(STALLED)


class StallWatch:
    """Looks at the device from a thread of its own.

    The death is then blamed as any other: the shard is tried again alone, and fails by its name
    when it stalls there, too.
    """

    def __init__(self, limit_s: float, end: Callable[[str], None] = _end) -> None:
        """Start to look.

        Args:
            limit_s: what one batch may take.
            end: ends the process, having said why.
        """
        self._limit_s, self._end = limit_s, end
        self._since: float | None = None
        self._what = ""
        self._over = threading.Event()
        threading.Thread(target=self._look, name="headrace-stall-watch", daemon=True).start()

    def step(self, what: str) -> None:
        """Say that the device begins something."""
        self._what, self._since = what, time.monotonic()

    def rest(self) -> None:
        """Say that the device does nothing."""
        self._since = None

    def close(self) -> None:
        """Look no more."""
        self._over.set()

    def _look(self) -> None:
        while not self._over.wait(self._limit_s / LOOKS):
            since = self._since
            if since is not None and time.monotonic() - since > self._limit_s:
                self._end(
                    f"{self._what}: expected a batch to take at most compute.stall_timeout_s "
                    f"{self._limit_s:g} s, and one has not come back: this worker ends itself"
                )
                return
