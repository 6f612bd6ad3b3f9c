"""Seconds by name, measured where the work is done."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Spans:
    """A stop-watch with names. One thread at a time."""

    def __init__(self) -> None:
        """Start with nothing measured."""
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start
