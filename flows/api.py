"""The public functions. The CLI is a thin skin over these."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.flows.job_file import load_job, parse_job
from headrace.flows.show import (
    Shown,
    console_for,
    report_view,
    run_view,
    status_view,
    verification_view,
)
from headrace.flows.show_plan import machine_view, preview_view
from headrace.schemas import layout
from headrace.schemas.errors import DamagedError
from headrace.schemas.job import Job
from headrace.schemas.machine import Machine
from headrace.schemas.preview import Preview
from headrace.schemas.report import RunReport
from headrace.schemas.status import Status
from headrace.schemas.transport import PLAIN, Transport
from headrace.schemas.verify import Verification
from headrace.stages.places import AnyPath, place_of

Options = Mapping[str, Any]
AnyJob = Job | Mapping[str, Any] | str | Path


def as_job(job: AnyJob) -> Job:
    """Take a Job, its plain data, or the path of a job file.

    Raises:
        JobError: it is no valid job.
    """
    if isinstance(job, Job):
        return job
    if isinstance(job, str | Path):
        return load_job(job)
    return parse_job(job)


def run(
    job: AnyJob,
    *,
    limit: int | None = None,
    fresh: bool = False,
    scheduler: str | None = None,
    workers: int | None = None,
    transport: Transport = PLAIN,
    prefect: bool = True,
    quiet: bool = False,
) -> Shown[RunReport]:
    """Run a job until every shard is committed or has failed; go on where an earlier run stopped.

    Args:
        job: a Job, its plain data, or the path of a job file.
        limit: only the first rows of the input.
        fresh: move an old output aside first.
        scheduler: the address of an existing Dask scheduler; None starts workers here.
        workers: how many workers to start here; None: as the job says.
        transport: how to reach the scheduler: TLS's files, or `insecure`.
        prefect: run as a Prefect flow run.
        quiet: print nothing.

    Returns:
        The run's report (`.value`), which shows itself in a notebook. `status` says whether all
        went well: shards that failed don't raise.

    Raises:
        JobError: the job, its model or its input can't be used.
        OtherRunError: the output folder belongs to another job or input. Nothing was touched.
        HeadraceError: something else that no row is to blame for.
    """
    started = time.monotonic()  # before Dask is imported: start-up is part of the bill
    from headrace.flows.progress import Progress
    from headrace.flows.run import Options, begin, find_work, finished, run_shards

    parsed = with_limit(as_job(job), limit)
    progress = Progress(None if quiet else console_for(to_stderr=True))
    options = Options(fresh=fresh, scheduler=scheduler, workers=workers, transport=transport)
    call = begin(parsed, options, progress, started)
    if prefect:
        from headrace.flows.prefect_run import run_with_prefect

        return Shown(run_with_prefect(call), run_view)
    surveyed, plan = find_work(call)
    report = finished(call, plan) or run_shards(call, surveyed, plan, lambda _: None)
    return Shown(report, run_view)


def with_limit(job: Job, limit: int | None) -> Job:
    """Limit a job to the first rows of its input."""
    if limit is None:
        return job
    changed = job.model_dump()  # without storage_options
    changed["input"] |= {"limit": limit, "storage_options": job.input.storage_options}
    changed["output"] |= {"storage_options": job.output.storage_options}
    return parse_job(changed)


def work(
    address: str,
    workers: int | None = None,
    device: str = "auto",
    cloud: str = "auto",
    grace_s: float = 25.0,
    transport: Transport = PLAIN,
) -> None:
    """Work for a scheduler until it ends, or until this machine is taken away (flows/spot.py).

    Args:
        address: the scheduler's.
        workers: how many to start; None: one for each GPU, or one.
        device: auto, cpu or cuda.
        cloud: whose notices to watch: auto, aws, gcp, azure or none.
        grace_s: seconds from SIGTERM to the end of this machine.
        transport: how to reach the scheduler.

    Raises:
        JobError: there is no such scheduler, or it may not be spoken to in this way.
        HeadraceError: the workers did not start, or ended by themselves.
    """
    from headrace.flows.progress import Progress
    from headrace.flows.spot import Duty, work

    progress = Progress(console_for(to_stderr=True))
    work(Duty(address, workers, device, cloud, grace_s, transport), progress.say)


def plan(job: AnyJob, *, limit: int | None = None) -> Shown[Preview]:
    """Say what a run would do: shards, shapes and waste, memory, an estimate. Writes nothing.

    Raises:
        JobError: the job can't run.
    """
    from headrace.flows.preview import preview

    return Shown(preview(with_limit(as_job(job), limit)), preview_view)


def status(out: str | Path, *, storage_options: Options | None = None) -> Shown[Status]:
    """Say what an output folder holds, from the folder alone.

    Args:
        out: a folder, or a URL.
        storage_options: for a URL, as in a job.

    Raises:
        DamagedError: it is no output folder, or its plan is damaged.
    """
    from headrace.stages.holding import look_at
    from headrace.stages.plan import load_plan
    from headrace.stages.totals import add_up

    folder = _folder(out, storage_options)
    planned = load_plan(folder)
    holding = look_at(folder, planned)
    found = Status(
        output=str(folder),
        name=planned.header.job.name,
        complete=holding.complete,
        success=(folder / layout.SUCCESS).is_file(),
        rows=add_up(holding.reports.values()).rows,
        rows_planned=planned.header.rows,
        shards_committed=len(holding.reports),
        shards_missing=len(holding.missing),
        damaged={planned.shards[at].part: why for at, why in holding.damaged.items()},
    )
    return Shown(found, status_view)


def _folder(out: str | Path, options: Options | None) -> AnyPath:
    return place_of(str(out), "OUT", options or {})


def doctor() -> Shown[Machine]:
    """Say what this machine has and which paths will be used."""
    from headrace.flows.doctor import examine

    return Shown(examine(), machine_view)


def verify(
    out: str | Path, *, deep: bool = False, storage_options: Options | None = None
) -> Shown[Verification]:
    """Read every data file in full and prove that rows in = good + null + errors.

    Args:
        out: a folder, or a URL.
        deep: also compare a sample with the input, and with what the model gives for it here.
        storage_options: for a URL, as in a job; of a deep look, for the input's URL too.

    Raises:
        DamagedError: there is no readable plan to prove it against.
        JobError: for a deep look, the input or the model is not there, or is another.
    """
    from headrace.stages.verify import verify as prove

    folder = _folder(out, storage_options)
    if not deep:
        return Shown(prove(folder), verification_view)
    from headrace.stages.recheck import recheck

    options = storage_options or {}
    found = prove(folder, lambda plan, parts: recheck(folder, plan, parts, options))
    return Shown(found, verification_view)


def report(out: str | Path, *, storage_options: Options | None = None) -> Shown[RunReport]:
    """Read the bill of a run.

    Args: as `status`.

    Raises:
        DamagedError: there is none.
    """
    from headrace.stages.store import read_json

    file = _folder(out, storage_options) / layout.RUN
    if not file.is_file():
        msg = f"expected the report of a run at {file}, got none. Has the run ended?"
        raise DamagedError(msg)
    return Shown(read_json(file, RunReport), report_view)
