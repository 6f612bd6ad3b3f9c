"""WHERE it runs: a Dask cluster of worker subprocesses here, or a scheduler that exists already.

Where the job may use GPUs and there are some, each worker has one. Dask-CUDA's own cluster is not
used: it starts workers by `multiprocessing`, which fails in a script without a main guard.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import dask
from distributed import Client, Security
from distributed.core import rpc
from distributed.deploy.spec import SpecCluster
from distributed.deploy.subprocess import SubprocessScheduler, SubprocessWorker

from headrace.flows import no_nvml, shield
from headrace.flows.transport import check_transport, security_of
from headrace.flows.worker_specs import START_DEADLINE_S, WorkerSpec, worker_specs
from headrace.schemas.errors import HeadraceError, JobError
from headrace.schemas.job import Job
from headrace.schemas.transport import PLAIN, Transport
from headrace.stages.wording import in_short

LOOK_S = 1
HOST = "127.0.0.1"
CONNECT_DEADLINE_S = 15
ANSWER_DEADLINE_S = 60
ORPHAN_DEADLINE = "5 minutes"


@dataclass(frozen=True)
class Cluster:
    """A connected Dask client, and whether its workers live for this run only."""

    client: Client
    own: bool

    def workers(self) -> dict[str, str]:
        """The connected workers: address to host."""
        return {str(address): str(info["host"]) for address, info in self.infos().items()}

    def infos(self) -> dict[str, Any]:
        """What the scheduler knows of the connected workers, by address.

        Raises:
            HeadraceError: the scheduler is gone.
        """
        if not self.connected:
            raise self.lost()
        # Not `client.scheduler_info`: the client's own timer replaces its answer with an empty one.
        try:
            identity: dict[str, Any] = self.client.sync(
                self.client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER_DEADLINE_S
            )
        except OSError as error:  # TimeoutError is one
            raise self.lost() from error
        found: dict[str, Any] = identity["workers"]
        return found

    @property
    def connected(self) -> bool:
        """Whether the scheduler answered the last time."""
        return bool(self.client.status == "running")

    def lost(self) -> HeadraceError:
        """Make the error that says that the scheduler is gone."""
        return HeadraceError(
            f"expected the Dask scheduler at {self.client.scheduler.address} to go on, and it is "
            "gone. What is committed is valid; run the same command again."
        )


@contextmanager
def open_cluster(
    job: Job,
    scheduler: str | None,
    workers: int | None,
    say: Callable[[str], None],
    transport: Transport = PLAIN,
) -> Iterator[Cluster]:
    """Start a cluster for this run, or connect to an existing scheduler.

    Args:
        job: says how many workers, and whether they may use GPUs.
        scheduler: the address of an existing scheduler, or None.
        workers: overrides the job's number.
        say: is told what the user should know of the workers.
        transport: how to reach an existing scheduler.

    Raises:
        JobError: there is no scheduler at that address, or it has no worker, or fewer GPUs than
            workers.
        HeadraceError: our own cluster did not start in time.
    """
    if workers is not None and (scheduler is not None or workers < 1):
        got = f"{workers} with --scheduler" if workers >= 1 else str(workers)
        msg = f"--workers: expected how many to start here, 1 or more, got {got}"
        raise JobError(msg)
    if scheduler is not None:
        yield from _existing(scheduler, transport)
        return
    wanted, key = job.compute.workers, "compute.workers"
    if workers is not None:
        wanted, key = workers, "--workers"
    yield from _own(*worker_specs(job.compute.device, wanted, key, say, {"host": HOST}))


def _own(workers: list[WorkerSpec], deadline_s: int) -> Iterator[Cluster]:
    with shield.shielded():
        cluster = SpecCluster(
            scheduler=_scheduler_spec(),
            workers={at: _worker_spec(worker) for at, worker in enumerate(workers)},
            silence_logs=logging.CRITICAL,
        )
    try:
        with Client(cluster) as client:
            _wait_for_workers(cluster, client, len(workers), deadline_s)
            yield Cluster(client, own=True)
    finally:
        _close(cluster)


def _scheduler_spec() -> dict[str, Any]:
    # A worker's death is our business: Dask must not run its task again by itself. A scheduler
    # whose client was killed goes, and its workers with it.
    settings = {
        "host": HOST,
        "port": 0,
        "dashboard": False,
        "dashboard_address": None,
        "allowed_failures": 0,
        "idle_timeout": ORPHAN_DEADLINE,
        "preload": [no_nvml.__name__, shield.__name__],
    }
    return {"cls": SubprocessScheduler, "options": {"scheduler_kwargs": settings}}


def _worker_spec(worker: WorkerSpec) -> dict[str, Any]:
    options = {"worker_class": worker.nanny, "worker_kwargs": worker.settings}
    return {"cls": SubprocessWorker, "options": options}


def _close(cluster: SpecCluster) -> None:
    """End our workers and their scheduler; one that died can't be asked to let them go."""
    if cluster.scheduler.process.returncode is None:
        cluster.close()
        return
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), suppress(OSError):
        cluster.close()


def _wait_for_workers(cluster: SpecCluster, client: Client, count: int, deadline_s: int) -> None:
    """Wait until all workers are there.

    Raises:
        HeadraceError: one ended, or they did not come in time.
    """
    start = time.monotonic()
    while True:
        try:
            client.wait_for_workers(count, timeout=LOOK_S)
        except TimeoutError as error:
            ended = sum(w.process.returncode is not None for w in cluster.workers.values())
            if not ended and time.monotonic() - start < deadline_s:
                continue
            why = f"{ended} ended at its start; its own words are above" if ended else str(error)
            msg = f"expected {count} Dask workers within {deadline_s} s: {why}"
            raise HeadraceError(msg) from error
        return


def _existing(address: str, transport: Transport) -> Iterator[Cluster]:
    with _connect(address, transport) as client:
        try:
            client.wait_for_workers(1, timeout=START_DEADLINE_S)
        except TimeoutError as error:
            msg = (
                f"--scheduler: expected a worker at {address} within {START_DEADLINE_S} s, "
                "got none. Start one with: headrace worker " + address
            )
            raise JobError(msg) from error
        yield Cluster(client, own=False)


def ask_scheduler(address: str, transport: Transport, argument: str) -> None:
    """Ask whether a scheduler is there.

    Args:
        address: such as tcp://HOST:8786.
        transport: how to reach it.
        argument: where the address was given, for the message.

    Raises:
        JobError: there is none, or it may not be spoken to in this way.
    """
    check_transport(address, transport)
    try:
        with ThreadPoolExecutor(1) as pool:  # a notebook's own thread runs a loop already
            kind = pool.submit(asyncio.run, _ask(address, security_of(transport))).result()
        if kind != "Scheduler":
            msg = f"a Dask {kind}"
            raise ValueError(msg)  # noqa: TRY301 - said as all that is wrong with the address
    except Exception as error:
        raise _no_scheduler(address, argument, error) from error


def _connect(address: str, transport: Transport) -> Client:
    ask_scheduler(address, transport, "--scheduler")
    try:
        return Client(address, timeout=CONNECT_DEADLINE_S, security=security_of(transport))
    except OSError as error:
        raise _no_scheduler(address, "--scheduler", error) from error


def _no_scheduler(address: str, argument: str, error: Exception) -> JobError:
    late = isinstance(error, TimeoutError)
    why = f"no answer within {CONNECT_DEADLINE_S} s" if late else in_short(error)
    return JobError(
        f"{argument}: expected a Dask scheduler at {address!r}, got {why}. "
        "Its address looks like tcp://HOST:8786; start one with: dask scheduler"
    )


async def _ask(address: str, security: Security | None) -> str:
    """Ask who is there. Dask's client would wait for ever for one that listens and is silent."""
    how = {} if security is None else security.get_connection_args("client")
    async with asyncio.timeout(CONNECT_DEADLINE_S), rpc(address, connection_args=how) as there:
        identity = await there.identity()
    return str(identity["type"])
