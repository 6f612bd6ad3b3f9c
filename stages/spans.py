"""Seconds by name, measured where the work is done; a profiler sees the same spans, as NVTX ranges.

Without a profiler, a range is two calls that do nothing.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import nvtx

NVTX_DOMAIN = "headrace"


class Spans:
    """A stop-watch with names. One thread at a time."""

    def __init__(self) -> None:
        """Start with nothing measured."""
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to `name`."""
        domain, label = _domain(), _label(name.removesuffix("_s"))
        domain.push_range(label)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start
            domain.pop_range()


@cache
def _domain() -> Any:  # noqa: ANN401 - nvtx ships no types
    return nvtx.get_domain(NVTX_DOMAIN)


@cache
def _label(name: str) -> Any:  # noqa: ANN401 - nvtx ships no types
    return _domain().get_event_attributes(message=name)
