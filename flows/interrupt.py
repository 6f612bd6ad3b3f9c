"""What Ctrl-C and SIGTERM do to a run: the first one drains it, the second one stops it at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

from headrace.flows.shield import SIGNALS


class Interrupts:
    """Listens to both signals from here to the end of the run, where this thread may.

    Only the main thread may; elsewhere the signals do what the program around the run decided.
    """

    def __init__(self) -> None:
        """Nobody has asked yet."""
        self.asked = False
        self._patient = self._over = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Listen: a signal raises KeyboardInterrupt."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back to whoever listened before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Take the first signal as a wish: it sets `asked`, and only the next one raises.

        Nothing interrupts what comes after: the run is about to end by itself.
        """
        self._patient = True
        try:
            yield
        finally:
            self._over = True

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - Python's signature
        if self._over:
            return
        if self._patient and not self.asked:
            self.asked = True
            return
        self._over = True  # cleaning up takes a moment: let nobody interrupt that
        raise KeyboardInterrupt
