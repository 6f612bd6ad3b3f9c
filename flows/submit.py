"""HOW shards reach the workers: one rolling window, no barrier, and every outcome accounted for.

Each shard is given to one worker by name, so that the client knows what a worker holds when it
dies. Those shards are suspects then: each is run again alone on a worker, and only a death while
alone counts against a shard. What a worker committed before it went is seen in the output.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from distributed import Future, wait
from distributed.client import CancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from headrace.flows.blame import Blame
from headrace.flows.cluster import Cluster
from headrace.flows.crew import Crew, Member
from headrace.flows.error_ratio import too_many_errors
from headrace.flows.order import NotBegun, Order, on_worker
from headrace.flows.waves import Wave, waves_of
from headrace.schemas.errors import HeadraceError, JobError, OutputError
from headrace.schemas.job import Job
from headrace.schemas.plan import Shard
from headrace.schemas.report import Rows, ShardReport
from headrace.stages.holding import written_report

TICK_S = 1.0
# A result is some kilobytes: it is late because the worker that holds it is gone.
RESULT_DEADLINE_S = 30.0
NAMED = 5  # shards in a message


@dataclass
class Watcher:
    """Who wants to know: called on the submitting thread."""

    wave_started: Callable[[Wave], None]
    shard_done: Callable[[Shard, ShardReport | None], None]
    draining: Callable[[int], None]  # how many shards are still to be finished
    say: Callable[[str], None]


@dataclass
class Tried:
    """What became of the shards that this invocation took on."""

    failures: dict[str, str] = field(default_factory=dict)  # part -> why
    stopped: str | None = None  # why the run stopped before its end


@dataclass(frozen=True)
class _Placed:
    shard: Shard
    member: Member
    alone: bool


class Submission:
    """One rolling window of shards over the workers of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        crew: Crew,
        job: Job,
        order: Order,
        before: Rows,
        watcher: Watcher,
    ) -> None:
        """Prepare.

        Args:
            cluster: where to submit.
            crew: its workers.
            job: attempts, deadlines and error ratio.
            order: what to tell the workers.
            before: rows that earlier invocations committed.
            watcher: who wants to know.
        """
        self._cluster, self._crew, self._job, self._order = cluster, crew, job, order
        self._rows, self._watcher = before, watcher
        self.tried = Tried()
        self._blame = Blame(job.compute.max_attempts)
        self._queue: deque[Shard] = deque()
        self._suspects: deque[Shard] = deque()
        self._cell: Member | None = None  # the worker that is kept for suspects
        self._running: dict[Future, _Placed] = {}
        self._serial = count()
        self._draining = False
        self._worker_seen: float | None = None

    def run(self, shards: Sequence[Shard], drain_asked: Callable[[], bool]) -> Tried:
        """Run the shards until each is committed or failed, or the run must stop.

        Args:
            shards: what to run.
            drain_asked: once this says yes, only the shards that were begun are finished.

        Raises:
            JobError: a worker found the job itself at fault.
            HeadraceError: no worker was left for too long, or the scheduler is gone.
            KeyboardInterrupt: the user stopped the run at once; what is committed stays.
        """
        waves = waves_of(shards)
        size = waves[0].shards if waves else 1
        self._queue.extend(shards)
        self._waves = {shard.index: waves[at // size] for at, shard in enumerate(shards)}
        try:
            while self._left() and self.tried.stopped is None:
                if drain_asked() and not self._draining:
                    self._drain()
                if self._draining and not self._running:
                    break
                self._look_after_workers()
                self._fill()
                for future in self._finished():
                    self._account(future)
        # Nobody here cancels a shard that is still accounted for: Dask does, without a scheduler.
        except (CancelledError, CommClosedError) as error:
            raise self._cluster.lost() from error
        finally:
            if self._cluster.connected:
                self._cluster.client.cancel(list(self._running), force=True)
            for wave in waves:
                wave.done.set()
        return self.tried

    def _left(self) -> bool:
        return bool(self._queue or self._suspects or self._running)

    def _drain(self) -> None:
        """Let the workers finish what they began; what waits for a thread there is given back."""
        self._draining = True
        threads = sum(member.threads for member in self._crew.ready())
        self._watcher.draining(min(threads, len(self._running)))
        self._cluster.client.run(
            on_worker, "begin_no_more", self._order.invocation, on_error="ignore"
        )

    def _look_after_workers(self) -> None:
        """Take back the shards of workers that are gone; wait for others, but not for ever."""
        for member in self._crew.look():
            for future in list(member.shards):
                self._died(future)
        now = time.monotonic()
        if not self._crew.empty():
            self._worker_seen = None
        elif self._worker_seen is None:
            self._worker_seen = now
            limit_s = self._job.compute.worker_timeout_s
            self._watcher.say(f"no worker is left; waiting up to {limit_s:g} s for another")
        elif now - self._worker_seen > self._job.compute.worker_timeout_s:
            waiting = [placed.shard for placed in self._running.values()]
            names = [shard.part for shard in (*waiting, *self._suspects, *self._queue)]
            more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
            msg = (
                f"expected a worker within compute.worker_timeout_s "
                f"{self._job.compute.worker_timeout_s:g} s, got none, for "
                f"{', '.join(names[:NAMED])}{more}. What is committed is valid; start workers and "
                "run the same command again."
            )
            raise HeadraceError(msg)

    def _fill(self) -> None:
        if self._draining:
            return
        ready = self._crew.ready()
        cell = self._choose_cell(ready)
        if cell is not None and self._suspects and not cell.shards:
            self._place(self._suspects.popleft(), cell, alone=True)
        others = [member for member in ready if member is not cell]
        while self._queue:
            free = [member for member in others if member.room > 0]
            if not free:
                return
            member = min(free, key=lambda one: len(one.shards) / one.threads)
            self._place(self._queue.popleft(), member, alone=False)

    def _choose_cell(self, ready: Sequence[Member]) -> Member | None:
        """Keep one worker free for suspects, as long as there are any."""
        alone = any(placed.alone for placed in self._running.values())
        if not self._suspects and not alone:
            self._cell = None
        elif self._cell not in ready:
            self._cell = min(ready, key=lambda member: len(member.shards), default=None)
        return self._cell

    def _place(self, shard: Shard, member: Member, *, alone: bool) -> None:
        wave = self._waves[shard.index]
        if not wave.started:
            wave.started = True
            self._watcher.wave_started(wave)
        attempt = self._blame.next_attempt(shard)
        future = self._cluster.client.submit(
            on_worker,
            "run_shard",
            self._order,
            shard,
            attempt,
            key=f"{shard.part}-{attempt}-{next(self._serial)}-{self._order.invocation}",
            workers=[member.address],
            pure=False,
            retries=0,
        )
        member.shards.add(future)
        self._running[future] = _Placed(shard, member, alone)

    def _finished(self) -> Iterable[Future]:
        if not self._running:
            time.sleep(TICK_S if self._worker_seen is not None else TICK_S / 10)
            return []
        try:
            wait(list(self._running), timeout=TICK_S, return_when="FIRST_COMPLETED")
        except TimeoutError:
            return []
        return [future for future in self._running if future.done()]

    def _account(self, future: Future) -> None:
        error = future.exception()
        if isinstance(error, KilledWorker):
            self._crew.forget(self._running[future].member)
            self._died(future)
            return
        if isinstance(error, JobError):
            raise error
        if isinstance(error, OutputError):  # no shard is to blame, and the next would meet it too
            self.tried.stopped = str(error)
            return
        if error is not None:
            self._on_error(self._take(future).shard, error)
            return
        try:
            report: ShardReport | NotBegun | None = future.result(timeout=RESULT_DEADLINE_S)
        except TimeoutError:
            self._died(future)
            return
        placed = self._take(future)
        if not isinstance(report, NotBegun):
            self._committed(placed.shard, report)
        elif report.leaving:
            self._crew.leaves(placed.member.address)
            self._queue.appendleft(placed.shard)

    def _take(self, future: Future) -> _Placed:
        placed = self._running.pop(future)
        placed.member.shards.discard(future)
        # A traceback in a cycle may hold it for long, and with it its result on the worker.
        future.release()
        return placed

    def _died(self, future: Future) -> None:
        """Take back a shard whose worker is gone, be it dead or only away."""
        self._cluster.client.cancel([future], force=True)
        placed = self._take(future)
        shard = placed.shard
        if (self._order.out / shard.part).exists():
            self._committed(shard, written_report(self._order.out, shard))
        elif placed.member.state == "out":  # it had said so
            self._queue.appendleft(shard)
        elif why := self._blame.died(shard, alone=placed.alone):
            self._fail(shard, why)
        else:
            self._suspects.append(shard)

    def _committed(self, shard: Shard, report: ShardReport | None) -> None:
        if report is not None:
            self._rows += report.tally.rows
        self._watcher.shard_done(shard, report)
        self._close(shard)
        self.tried.stopped = too_many_errors(self._rows, self._job.errors.max_ratio)

    def _on_error(self, shard: Shard, error: BaseException) -> None:
        if why := self._blame.raised(shard, error):
            self._fail(shard, why)
        else:
            self._queue.appendleft(shard)

    def _fail(self, shard: Shard, why: str) -> None:
        self.tried.failures[shard.part] = why
        self._waves[shard.index].failed.append(shard.part)
        self._close(shard)

    def _close(self, shard: Shard) -> None:
        wave = self._waves[shard.index]
        wave.left -= 1
        if wave.left == 0:
            wave.done.set()
