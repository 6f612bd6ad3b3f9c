"""HOW shards reach the workers: one rolling window, no barrier, and every outcome accounted for."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from distributed import Future, wait
from distributed.client import FuturesCancelledError

from headrace.flows.cluster import Cluster
from headrace.flows.order import NotBegun, Order, on_worker
from headrace.schemas.errors import HeadraceError, JobError, OutputError, ShardError
from headrace.schemas.job import Job
from headrace.schemas.plan import Shard
from headrace.schemas.report import Rows, ShardReport

WAVES = 50
TICK_S = 1.0
WORKER_DEADLINE_S = 120.0
# Too few rows say nothing about a ratio.
JUDGED_FROM_ROWS = 1_000


@dataclass
class Wave:
    """A reporting group of shards. `done` is set when nothing more will happen to them."""

    index: int
    shards: int
    left: int
    started: bool = False
    failed: list[str] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)


@dataclass
class Watcher:
    """Who wants to know: called on the submitting thread."""

    wave_started: Callable[[Wave], None]
    shard_done: Callable[[Shard, ShardReport | None], None]
    draining: Callable[[int], None]  # how many shards are still to be finished


@dataclass
class Tried:
    """What became of the shards that this invocation took on."""

    failures: dict[str, str] = field(default_factory=dict)  # part -> why
    stopped: str | None = None  # why the run stopped before its end


def waves_of(shards: Sequence[Shard]) -> list[Wave]:
    """Group the shards into at most 50 waves of equal size."""
    size = max(1, -(-len(shards) // WAVES))
    groups = (min(size, len(shards) - start) for start in range(0, len(shards), size))
    return [Wave(index, number, number) for index, number in enumerate(groups)]


class Submission:
    """One rolling window of shards over the workers of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        order: Order,
        workers: Sequence[str] | None,
        before: Rows,
        watcher: Watcher,
    ) -> None:
        """Prepare.

        Args:
            cluster: where to submit.
            job: attempts and error ratio.
            order: what to tell the workers.
            workers: the only workers that may take shards; None: any, new ones too.
            before: rows that earlier invocations committed.
            watcher: who wants to know.
        """
        self._cluster, self._job, self._order, self._workers = cluster, job, order, workers
        self._rows, self._watcher = before, watcher
        self.tried = Tried()
        self._attempts: dict[int, int] = {}
        self._running: dict[Future, Shard] = {}
        self._serial = count()
        self._draining = False
        self._worker_seen = time.monotonic()

    def run(self, shards: Sequence[Shard], drain_asked: Callable[[], bool]) -> Tried:
        """Run the shards until each is committed or failed, or the run must stop.

        Args:
            shards: what to run.
            drain_asked: once this says yes, only the shards that were begun are finished.

        Raises:
            JobError: a worker found the job itself at fault.
            HeadraceError: no worker was left for two minutes, or the scheduler is gone.
            KeyboardInterrupt: the user stopped the run at once; what is committed stays.
        """
        waves = waves_of(shards)
        size = waves[0].shards if waves else 1
        queue = deque(shards)
        self._place = {shard.index: waves[at // size] for at, shard in enumerate(shards)}
        try:
            while (queue or self._running) and self.tried.stopped is None:
                if drain_asked() and not self._draining:
                    self._drain()
                if self._draining and not self._running:
                    break
                self._fill(queue)
                for future in self._finished():
                    self._account(future, queue)
        finally:
            if self._cluster.connected:
                self._cluster.client.cancel(list(self._running), force=True)
            for wave in waves:
                wave.done.set()
        return self.tried

    def _drain(self) -> None:
        """Let the workers finish what they began; what waits for a thread there is given back."""
        self._draining = True
        self._watcher.draining(min(sum(self._cluster.threads()), len(self._running)))
        self._cluster.client.run(
            on_worker, "begin_no_more", self._order.invocation, on_error="ignore"
        )

    def _fill(self, queue: deque[Shard]) -> None:
        if self._draining:
            return
        room = self._window() - len(self._running)
        while queue and room > 0:
            shard = queue.popleft()
            wave = self._place[shard.index]
            if not wave.started:
                wave.started = True
                self._watcher.wave_started(wave)
            attempt = self._attempts.get(shard.index, 0) + 1
            self._attempts[shard.index] = attempt
            self._running[self._submit(shard, attempt)] = shard
            room -= 1

    def _window(self) -> int:
        threads = self._cluster.threads()
        return max(1, sum(threads) + len(threads))

    def _submit(self, shard: Shard, attempt: int) -> Future:
        return self._cluster.client.submit(
            on_worker,
            "run_shard",
            self._order,
            shard,
            attempt,
            key=f"{shard.part}-{attempt}-{next(self._serial)}-{self._order.invocation}",
            workers=self._workers,
            pure=False,
            retries=0,
        )

    def _finished(self) -> Iterable[Future]:
        try:
            wait(list(self._running), timeout=TICK_S, return_when="FIRST_COMPLETED")
        except TimeoutError:
            self._check_workers()
            return []
        except FuturesCancelledError as error:
            raise self._cluster.lost() from error
        self._worker_seen = time.monotonic()
        return [future for future in self._running if future.done()]

    def _check_workers(self) -> None:
        if self._cluster.workers():
            self._worker_seen = time.monotonic()
        elif time.monotonic() - self._worker_seen > WORKER_DEADLINE_S:
            names = ", ".join(sorted(shard.part for shard in self._running.values()))
            msg = f"expected a worker within {WORKER_DEADLINE_S:.0f} s, got none, for {names}"
            raise HeadraceError(msg)

    def _account(self, future: Future, queue: deque[Shard]) -> None:
        if future.cancelled():  # nobody here cancels a shard that is still accounted for
            raise self._cluster.lost()
        shard = self._running.pop(future)
        error = future.exception()
        if isinstance(error, JobError):
            raise error
        if isinstance(error, OutputError):  # no shard is to blame, and the next would meet it too
            self.tried.stopped = str(error)
            return
        if error is not None:
            self._on_error(shard, error, queue)
            return
        report: ShardReport | NotBegun | None = future.result()
        if isinstance(report, NotBegun):
            return
        if report is not None:
            self._rows += report.tally.rows
        self._watcher.shard_done(shard, report)
        self._close(shard)
        self.tried.stopped = too_many_errors(self._rows, self._job.errors.max_ratio)

    def _on_error(self, shard: Shard, error: BaseException, queue: deque[Shard]) -> None:
        hopeless = isinstance(error, ShardError)
        if not hopeless and self._attempts[shard.index] < self._job.compute.max_attempts:
            queue.appendleft(shard)
            return
        text = (
            str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
        )
        tries = self._attempts[shard.index]
        self.tried.failures[shard.part] = f"{text} ({tries} attempt{'s' * (tries > 1)})"
        self._place[shard.index].failed.append(shard.part)
        self._close(shard)

    def _close(self, shard: Shard) -> None:
        wave = self._place[shard.index]
        wave.left -= 1
        if wave.left == 0:
            wave.done.set()


def too_many_errors(rows: Rows, max_ratio: float) -> str | None:
    """Say why a run must stop, if so many of its rows failed."""
    if rows.in_ < JUDGED_FROM_ROWS or rows.errors <= max_ratio * rows.in_:
        return None
    return (
        f"{rows.errors:,} of {rows.in_:,} rows failed, above errors.max_ratio {max_ratio:g}; "
        "see _headrace/errors/ for the rows and their reasons"
    )
