"""A worker for an existing scheduler that knows when its machine is taken away: `headrace worker`.

The workers are processes of their own, each below a nanny that starts it again when it dies. This
process listens to SIGTERM and to the cloud, tells the workers how long they have, waits until they
are done with what they can finish, and ends them.
"""

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from distributed import Client
from distributed.deploy.subprocess import SubprocessWorker

from headrace.flows import shield
from headrace.flows.cluster import CONNECT_DEADLINE_S, ask_scheduler
from headrace.flows.notices import Cloud, find_cloud
from headrace.flows.order import on_worker
from headrace.flows.transport import security_of, security_settings
from headrace.flows.worker_specs import WorkerSpec, worker_specs
from headrace.schemas.errors import HeadraceError, JobError
from headrace.schemas.transport import Transport
from headrace.stages.wording import in_short

CLOUDS = ("auto", "aws", "gcp", "azure", "none")
METADATA_URL = "HEADRACE_METADATA_URL"
LOOK_S = 0.25
# What ending the processes may take; they are told that much less.
END_S = 1.0


@dataclass(frozen=True)
class Duty:
    """Whom to work for, and how."""

    address: str
    workers: int | None
    device: str
    cloud: str
    grace_s: float
    transport: Transport


@dataclass(frozen=True)
class _Notice:
    who: str
    seconds_left: float


def work(duty: Duty, say: Callable[[str], None]) -> None:
    """Work until the scheduler ends or this machine is taken away.

    Raises:
        JobError: there is no such scheduler, or it may not be spoken to in this way.
        HeadraceError: the workers did not start, or ended by themselves.
    """
    if duty.cloud not in CLOUDS:
        msg = f"--cloud: expected one of {', '.join(CLOUDS)}, got {duty.cloud!r}"
        raise JobError(msg)
    ask_scheduler(duty.address, duty.transport, "ADDR")
    # Found first: a signal must not meet a half-started process.
    cloud = find_cloud(duty.cloud, os.environ.get(METADATA_URL))
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    asyncio.run(_serve(duty, cloud, say))


async def _serve(duty: Duty, cloud: Cloud | None, say: Callable[[str], None]) -> None:
    notices: asyncio.Queue[_Notice] = asyncio.Queue()
    _listen(notices, duty.grace_s)
    names = f"{socket.gethostname()}-{uuid.uuid4().hex[:6]}"
    processes, deadline_s = _processes(duty, names, say)
    security = security_of(duty.transport)
    async with Client(
        duty.address, asynchronous=True, timeout=CONNECT_DEADLINE_S, security=security
    ) as client:
        watching = asyncio.create_task(_watch(cloud, notices, say))
        try:
            with shield.shielded():
                await asyncio.gather(*(process.start() for process in processes))
            team = _Team(client, names, processes)
            await team.wait_for_all(deadline_s, notices)
            watched = f"SIGTERM and {cloud.name}'s notices" if cloud else "SIGTERM"
            say(f"{len(processes)} working for {duty.address}; watching {watched}")
            notice = await team.until_the_end(notices)
            if notice is None:
                say(f"the scheduler {duty.address} is gone")
                return
            say(f"{notice.who}: {notice.seconds_left:.0f} s left; finishing what fits")
            await team.leave(notice.seconds_left - END_S, say)
        finally:
            watching.cancel()
            await asyncio.gather(*(process.close() for process in processes))


def _listen(notices: asyncio.Queue[_Notice], grace_s: float) -> None:
    loop = asyncio.get_running_loop()
    for number in shield.SIGNALS:
        notice = _Notice(number.name, grace_s)
        loop.add_signal_handler(number, notices.put_nowait, notice)


def _processes(
    duty: Duty, names: str, say: Callable[[str], None]
) -> tuple[list[SubprocessWorker], int]:
    wanted: Literal["auto"] | int = "auto" if duty.workers is None else duty.workers
    security = security_settings(duty.transport)
    more = {} if security is None else {"security": security}
    specs, deadline_s = worker_specs(duty.device, wanted, "--workers", say, more)
    made = [_process(duty.address, spec, f"{names}-{at}") for at, spec in enumerate(specs)]
    return made, deadline_s


def _process(address: str, spec: WorkerSpec, name: str) -> SubprocessWorker:
    settings = spec.settings | {"name": name}
    return SubprocessWorker(address, worker_class=spec.nanny, name=name, worker_kwargs=settings)


async def _watch(
    cloud: Cloud | None, notices: asyncio.Queue[_Notice], say: Callable[[str], None]
) -> None:
    """Ask the cloud, until it says that this machine will be taken away."""
    while cloud is not None:
        try:
            left_s = await asyncio.to_thread(cloud.seconds_left)
        except (OSError, ValueError) as error:  # it may answer the next time
            say(f"{cloud.name}'s metadata service: {in_short(error)}")
            left_s = None
        if left_s is not None:
            notices.put_nowait(_Notice(f"{cloud.name}'s notice", left_s))
            return
        await asyncio.sleep(cloud.every_s)


@dataclass(frozen=True)
class _Team:
    """This machine's workers, as the scheduler knows them."""

    client: Client
    names: str
    processes: list[SubprocessWorker]

    async def _addresses(self) -> list[str]:
        identity = await self.client.scheduler.identity(n_workers=-1)
        workers = identity["workers"].items()
        return [address for address, info in workers if str(info["name"]).startswith(self.names)]

    async def wait_for_all(self, deadline_s: int, notices: asyncio.Queue[_Notice]) -> None:
        """Wait until all have started, or a notice comes first."""
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        while notices.empty() and len(await self._addresses()) < len(self.processes):
            self._raise_if_ended()
            if loop.time() > end:
                msg = f"expected {len(self.processes)} workers to start within {deadline_s} s"
                raise HeadraceError(msg)
            await asyncio.sleep(LOOK_S)

    async def until_the_end(self, notices: asyncio.Queue[_Notice]) -> _Notice | None:
        """Wait for a notice; None: the scheduler is gone."""
        while self.client.status in ("running", "connecting"):
            try:
                return await asyncio.wait_for(notices.get(), LOOK_S)
            except TimeoutError:
                if self.client.status == "running":
                    self._raise_if_ended()
        return None

    def _raise_if_ended(self) -> None:
        ended = [one for one in self.processes if one.process.returncode is not None]
        if ended:
            msg = (
                f"expected {len(self.processes)} worker processes to go on, and {len(ended)} "
                f"ended with {ended[0].process.returncode}; their own words are above"
            )
            raise HeadraceError(msg)

    async def leave(self, seconds_left: float, say: Callable[[str], None]) -> None:
        """Let the workers finish what fits into the time, and hand over their results."""
        try:
            async with asyncio.timeout(max(END_S, seconds_left)):
                addresses = await self._addresses()
                await self._run(addresses, on_worker, "leave", max(0.0, seconds_left))
                while any((await self._run(addresses, held)).values()):  # noqa: ASYNC110 - theirs
                    await asyncio.sleep(LOOK_S)
                await self._run(addresses, on_worker, "say_goodbye", None)
                say("left: nothing is in flight here")
        except (TimeoutError, OSError) as error:
            say(f"left in haste: {in_short(error) or 'the time is over'}")

    async def _run(self, addresses: list[str], function: Any, *args: object) -> dict[str, Any]:  # noqa: ANN401
        if not addresses:
            return {}
        found: dict[str, Any] = await self.client.run(
            function, *args, workers=addresses, on_error="ignore"
        )
        return found


def held(dask_worker: Any) -> int:  # noqa: ANN401 - Dask ships no types
    """Count a worker's tasks, and the results that no client has fetched yet."""
    return len(dask_worker.state.tasks)
