"""The ledger of one worker: which shard, or what else, each instant of its life belongs to.

The rule (docs/structure.md): an instant belongs to the shard on the device; if there is none, in
equal parts to the shards open on this worker; if there is none, to start-up or idle. The journal
beside it measures the life of the process itself, so that the two can disagree.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.schemas.report import Price, WorkerRecord


@dataclass
class Account:
    """The seconds that one attempt at a shard has been charged so far."""

    name: str
    charged_s: float = 0.0


class WorkerLedger:
    """Attributes every instant. Safe to call from any thread."""

    def __init__(self, started_unix_s: float, clock: Callable[[], float] = time.time) -> None:
        """Start at the creation of the process; what has passed since then is start-up."""
        self._clock = clock
        self._lock = threading.Lock()
        self._at = started_unix_s
        self._ready = False
        self._open: list[Account] = []
        self._on_device: Account | None = None
        self.started_unix_s = started_unix_s
        self.startup_s = self.idle_s = self.wasted_s = self.shards_s = 0.0

    def ready(self) -> None:
        """End the start-up."""
        with self._lock:
            self._settle()
            self._ready = True

    def open(self, name: str) -> Account:
        """Begin an attempt at a shard."""
        with self._lock:
            self._settle()
            account = Account(name)
            self._open.append(account)
            return account

    def take_device(self, account: Account) -> None:
        """Give the device to an attempt."""
        with self._lock:
            self._settle()
            self._on_device = account

    def leave_device(self) -> None:
        """Take the device back."""
        with self._lock:
            self._settle()
            self._on_device = None

    def charged(self, account: Account) -> float:
        """Seconds charged to an open attempt up to now."""
        with self._lock:
            self._settle()
            return account.charged_s

    def close(self, account: Account, *, wasted: bool) -> float:
        """End an attempt. Returns its seconds, which count as wasted when it came to nothing."""
        with self._lock:
            self._settle()
            self._open.remove(account)
            if wasted:
                self.wasted_s += account.charged_s
            else:
                self.shards_s += account.charged_s
            return account.charged_s

    def record(
        self, name: str, invocation: str, host: str, pid: int, price: Price | None, *, closed: bool
    ) -> WorkerRecord:
        """Write down the life so far. What is still open counts as wasted until it is closed."""
        with self._lock:
            self._settle()
            return WorkerRecord(
                name=name,
                invocation=invocation,
                host=host,
                pid=pid,
                started_unix_s=self.started_unix_s,
                last_seen_unix_s=self._clock(),
                closed=closed,
                startup_s=self.startup_s,
                idle_s=self.idle_s,
                wasted_s=self.wasted_s + sum(account.charged_s for account in self._open),
                shards_s=self.shards_s,
                price=price,
            )

    def _settle(self) -> None:
        now = self._clock()
        passed, self._at = now - self._at, now
        if self._on_device is not None:
            self._on_device.charged_s += passed
        elif self._open:
            for account in self._open:
                account.charged_s += passed / len(self._open)
        elif self._ready:
            self.idle_s += passed
        else:
            self.startup_s += passed
