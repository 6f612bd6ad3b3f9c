"""Keeps Ctrl-C and SIGTERM from the processes that a run starts: the run itself decides.

A terminal sends Ctrl-C to every process in the foreground, and a service manager sends SIGTERM to
all of a service. Workers that took them would die with the shards that the run wants to finish.

`shielded` covers a child from its first moment. Then it shields itself: the scheduler by its
preload, `dask_setup`, a nanny by `ShieldedNanny`. What a nanny ignores, its worker ignores too.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Nanny

NO_NVML = {"distributed.diagnostics.nvml": False}  # why not: flows/no_nvml.py
SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK_S = 1.0


@contextmanager
def shielded(signals: tuple[signal.Signals, ...] = SIGNALS) -> Iterator[None]:
    """Let the processes that are started here be deaf to signals; our own wait until the end.

    A blocked signal stays blocked in a child, over its exec too, until the child unblocks it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ShieldedNanny(Nanny):  # type: ignore[misc] # Dask ships no types
    """A nanny by this name, and not by a preload, which its log would announce on our stderr."""

    def __init__(self, *args: object, **kwargs: Any) -> None:  # noqa: ANN401 - Dask's own
        """Take what a nanny takes; its worker inherits this process's configuration."""
        dask.config.set(NO_NVML)
        super().__init__(*args, **kwargs)

    async def start_unsafe(self) -> Any:  # noqa: ANN401 - Dask's signature
        """Shield this process before it starts its worker."""
        dask_setup(self)
        return await super().start_unsafe()


def dask_setup(server: object) -> None:  # noqa: ARG001 - Dask's signature
    """Ignore the signals for good, die with the run, and leave stdout and logs to it."""
    logging.disable(logging.ERROR)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # The run prints one JSON object there, and a model may print too.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()


def _die_with(parent: int) -> None:
    """End this process when its parent is gone; a nanny's worker ends with it."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)
