"""The journal of one worker process: its life, written down every ten seconds and at its end."""

import atexit
import os
import socket
import threading
import time
from contextlib import suppress

import psutil

from headrace.schemas import layout
from headrace.schemas.report import Price
from headrace.stages.ledger import WorkerLedger
from headrace.stages.places import AnyPath
from headrace.stages.store import as_json, own_tmp, replace

HEARTBEAT_S = 10.0


class Journal:
    """Keeps `_headrace/workers/<name>.json` up to date from a thread of its own."""

    def __init__(
        self, out: AnyPath, invocation: str, ledger: WorkerLedger, price: Price | None
    ) -> None:
        """Write the first record and begin the heartbeat."""
        self._host, self._pid = socket.gethostname(), os.getpid()
        self.name = f"{invocation}-{self._host}-{self._pid}"
        self._out, self._invocation, self._ledger, self._price = out, invocation, ledger, price
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._write(closed=False)
        self._thread = threading.Thread(target=self._beat, name="headrace-journal", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """Write the last record. Does nothing the second time."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._write(closed=True)

    def beat(self) -> None:
        """Write a record now: a shard was committed."""
        if not self._stop.is_set():
            self._write(closed=False)

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_S):
            # A disk that takes no record takes no part either, and that one says so. The next
            # heartbeat tries again.
            with suppress(OSError):
                self._write(closed=False)

    def _write(self, *, closed: bool) -> None:
        with self._lock:  # a later record must not be overwritten by an earlier one
            record = self._ledger.record(
                self.name, self._invocation, self._host, self._pid, self._price, closed=closed
            )
            file = self._out / layout.WORKERS / f"{self.name}.json"
            replace(file, as_json(record), own_tmp(self._out))


def process_started_unix_s() -> float:
    """When the operating system created this process, seconds since 1970."""
    return psutil.Process().create_time()


def now_unix_s() -> float:
    """Now, seconds since 1970."""
    return time.time()
