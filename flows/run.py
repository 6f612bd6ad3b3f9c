"""The recipe of a run: survey, plan, cluster, shards, finish. Prefect is only a view of it."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.flows.cluster import Cluster, open_cluster
from headrace.flows.crew import Crew
from headrace.flows.error_ratio import too_many_errors
from headrace.flows.interrupt import Interrupts
from headrace.flows.order import Order, on_worker
from headrace.flows.progress import Progress
from headrace.flows.resolve_shapes import resolve_shapes
from headrace.flows.submit import Submission, Tried, Watcher
from headrace.flows.waves import Wave
from headrace.schemas import layout
from headrace.schemas.job import Job
from headrace.schemas.plan import Plan
from headrace.schemas.report import RunReport
from headrace.schemas.transport import PLAIN, Transport
from headrace.stages.destination import (
    made,
    output_place,
    refuse_foreign,
    refuse_to_move,
    set_aside,
)
from headrace.stages.finish import finish
from headrace.stages.holding import Holding, look_at, repair
from headrace.stages.model_folder import PACKAGE
from headrace.stages.places import AnyPath, local_path
from headrace.stages.plan import draw_plan, restore_plan, write_plan
from headrace.stages.store import writing
from headrace.stages.survey import Survey, survey
from headrace.stages.totals import add_up

GOODBYE_DEADLINE_S = 10
INTERRUPTED = "interrupted; what is committed is valid, and the same command goes on from there"

WaveStarted = Callable[[Wave], None]


@dataclass(frozen=True)
class Options:
    """What a run is told beside its job."""

    fresh: bool = False
    scheduler: str | None = None
    workers: int | None = None
    transport: Transport = PLAIN


@dataclass
class Invocation:
    """One call of `run`, from its first moment."""

    job: Job
    options: Options
    progress: Progress
    started: float
    id: str
    startup_s: float = 0.0

    @property
    def out(self) -> AnyPath:
        """The output folder."""
        return output_place(self.job)


def _absolute(job: Job) -> Job:
    """Name the model's folder absolutely: a worker may stand in another folder."""
    if job.model.path.startswith(PACKAGE):
        return job
    path = str(local_path(job.model.path, "model.path"))
    return job.model_copy(update={"model": job.model.model_copy(update={"path": path})})


def begin(job: Job, options: Options, progress: Progress, started: float) -> Invocation:
    """Name an invocation that began at `started`, on the monotonic clock."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    name = f"{stamp}-{uuid.uuid4().hex[:6]}"
    return Invocation(_absolute(job), options, progress, started, name)


def find_work(call: Invocation) -> tuple[Survey, Plan | None]:
    """Survey the job, and find the plan that its output folder may hold already.

    Raises:
        JobError: the job can't run, or the output folder holds something else.
        OtherRunError: the output folder belongs to another run; nothing is touched.
    """
    surveyed = survey(call.job)
    if call.options.fresh:  # the old output is moved when there is a plan to take its place
        refuse_to_move(call.out, surveyed.model.path)
        return surveyed, None
    if (call.out / layout.PLAN).is_file():
        return surveyed, restore_plan(call.out, surveyed)
    refuse_foreign(call.out)
    return surveyed, None


def finished(call: Invocation, plan: Plan | None) -> RunReport | None:
    """Return the report of an output that is complete already, computing nothing."""
    if plan is None:
        return None
    holding = look_at(call.out, plan)
    if not holding.complete:
        return None
    with writing(call.out):
        repair(call.out, plan, holding)
    return _finish(call, plan, holding, Tried())


def run_shards(
    call: Invocation, surveyed: Survey, plan: Plan | None, wave_started: WaveStarted
) -> RunReport:
    """Start a cluster, plan if there is no plan yet, and compute what is not committed.

    Raises:
        JobError: a worker found the job itself at fault.
        HeadraceError: something else that no row is to blame for.
    """
    call.progress.say(f"starting {_cluster_name(call)}")
    with Interrupts() as interrupts:
        options, say = call.options, call.progress.say
        where = (options.scheduler, options.workers)
        with open_cluster(call.job, *where, say, options.transport) as cluster:
            if plan is None:
                plan = _make_plan(call, surveyed, cluster)
            holding = look_at(call.out, plan)
            with writing(call.out):
                repair(call.out, plan, holding)
            order = _order(call, surveyed, cluster)
            try:
                tried = _run(call, cluster, order, plan, holding, wave_started, interrupts)
            finally:
                _say_goodbye(call, cluster, order)
        return _finish(call, plan, look_at(call.out, plan), tried)


def _run(
    call: Invocation,
    cluster: Cluster,
    order: Order,
    plan: Plan,
    holding: Holding,
    wave_started: WaveStarted,
    interrupts: Interrupts,
) -> Tried:
    before = add_up(holding.reports.values()).rows
    too_many = too_many_errors(before, call.job.errors.max_ratio)
    if too_many is not None:
        return Tried(stopped=too_many)
    call.progress.say("loading the model")
    crew = Crew(cluster, order, call.progress.say)
    crew.muster()
    call.startup_s = time.monotonic() - call.started
    call.progress.plan(plan)

    todo = [shard for shard in plan.shards if shard.index not in holding.reports]
    say = call.progress
    watcher = Watcher(wave_started, say.shard_done, say.draining, say.say)
    submission = Submission(cluster, crew, call.job, order, before, watcher)
    tried = submission.tried
    with call.progress.bar(plan.header.rows, before.in_, call.startup_s):
        try:
            with interrupts.patient():
                submission.run(todo, lambda: interrupts.asked)
        except KeyboardInterrupt:
            tried.stopped = INTERRUPTED
    if interrupts.asked:
        tried.stopped = tried.stopped or INTERRUPTED
    return tried


def _make_plan(call: Invocation, surveyed: Survey, cluster: Cluster) -> Plan:
    call.progress.say("planning: sampling lengths, loading the model, checking precision")
    shards = surveyed.cut()
    resolved = resolve_shapes(call.job, surveyed, shards, cluster)
    with writing(call.out):
        if call.options.fresh:
            _set_aside(call)
        with made(call.out):
            return write_plan(call.out, draw_plan(surveyed, shards, resolved), surveyed)


def _order(call: Invocation, surveyed: Survey, cluster: Cluster) -> Order:
    hosts = list(cluster.workers().values())
    return Order(
        invocation=call.id,
        job=call.job,
        output=str(call.out),
        base=str(surveyed.base),
        workers_by_host=tuple((host, hosts.count(host)) for host in sorted(set(hosts))),
        own_process=cluster.own,
    )


def _say_goodbye(call: Invocation, cluster: Cluster, order: Order) -> None:
    """Let the workers close their journals; a worker that does not answer is left to its end."""
    if not cluster.connected or not cluster.workers():
        return
    try:
        cluster.client.run(
            on_worker,
            "say_goodbye",
            order.invocation,
            on_error="ignore",
            callback_timeout=GOODBYE_DEADLINE_S,
        )
    except TimeoutError:
        call.progress.say(f"not every worker said goodbye within {GOODBYE_DEADLINE_S} s")


def _finish(call: Invocation, plan: Plan, holding: Holding, tried: Tried) -> RunReport:
    rows = add_up(holding.reports.values()).rows
    reason = too_many_errors(rows, call.job.errors.max_ratio)
    if not holding.complete and reason is None:
        reason = tried.stopped or f"{len(tried.failures)} of {len(plan.shards)} shards failed"
    status = "done" if reason is None else "failed"
    if reason == INTERRUPTED:
        status = "interrupted"
    with writing(call.out):
        return finish(
            call.out,
            plan,
            holding,
            invocation=call.id,
            status=status,
            reason=reason,
            failures=tried.failures,
            seconds=time.monotonic() - call.started,
            startup_s=call.startup_s,
        )


def _cluster_name(call: Invocation) -> str:
    if call.options.scheduler is not None:
        return f"on the Dask scheduler {call.options.scheduler}"
    return "Dask workers on this machine"


def _set_aside(call: Invocation) -> None:
    target = set_aside(call.out, call.id)
    if target is not None:
        call.progress.say(f"moved the old output to {target}")
