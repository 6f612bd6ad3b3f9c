"""WHERE it runs: a Dask cluster of worker subprocesses here, or a scheduler that exists already."""

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import dask
from distributed import Client
from distributed.core import rpc
from distributed.deploy.spec import SpecCluster
from distributed.deploy.subprocess import SubprocessCluster

from headrace.flows import shield
from headrace.schemas.errors import HeadraceError, JobError
from headrace.schemas.job import Job
from headrace.stages.cores import own_cores
from headrace.stages.wording import in_short

# Read and tokenize the next shard, compute this one, write the last one.
THREADS_PER_WORKER = 3
START_DEADLINE_S = 60
CONNECT_DEADLINE_S = 15
ORPHAN_DEADLINE = "5 minutes"


@dataclass(frozen=True)
class Cluster:
    """A connected Dask client, and whether its workers live for this run only."""

    client: Client
    own: bool

    def workers(self) -> dict[str, str]:
        """The connected workers: address to host."""
        return {str(address): str(info["host"]) for address, info in self._infos().items()}

    def threads(self) -> list[int]:
        """The task threads of each connected worker."""
        return [int(info["nthreads"]) for info in self._infos().values()]

    def _infos(self) -> dict[str, Any]:
        """What the scheduler knows of the workers.

        Raises:
            HeadraceError: the scheduler is gone.
        """
        if not self.connected:
            raise self.lost()
        try:
            infos: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        except OSError as error:
            raise self.lost() from error
        return infos

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
def open_cluster(job: Job, scheduler: str | None, workers: int | None) -> Iterator[Cluster]:
    """Start a cluster for this run, or connect to an existing scheduler.

    Args:
        job: says how many workers.
        scheduler: the address of an existing scheduler, or None.
        workers: overrides the job's number.

    Raises:
        JobError: there is no scheduler at that address, or it has no worker.
        HeadraceError: our own cluster did not start in time.
    """
    if workers is not None and (scheduler is not None or workers < 1):
        got = f"{workers} with --scheduler" if workers >= 1 else str(workers)
        msg = f"--workers: expected how many to start here, 1 or more, got {got}"
        raise JobError(msg)
    if scheduler is not None:
        yield from _existing(scheduler)
    else:
        yield from _own(_count(job, workers))


def _count(job: Job, workers: int | None) -> int:
    wanted = job.compute.workers if workers is None else workers
    return 1 if wanted == "auto" else wanted


def _own(count: int) -> Iterator[Cluster]:
    with shield.shielded():
        cluster = SubprocessCluster(
            n_workers=count,
            threads_per_worker=THREADS_PER_WORKER,
            dashboard_address=None,
            worker_class=f"{shield.__name__}.{shield.ShieldedNanny.__name__}",
            worker_kwargs={
                "memory_limit": 0,
                "death_timeout": START_DEADLINE_S,
                # Dask allows one thread a library; the device thread uses this worker's share.
                "env": _thread_limits(own_cores(count)),
            },
            # A worker's death is our business: Dask must not run its task again by itself. A
            # scheduler whose client was killed goes, and its workers with it.
            scheduler_kwargs={
                "allowed_failures": 0,
                "idle_timeout": ORPHAN_DEADLINE,
                "preload": shield.__name__,
            },
            silence_logs=logging.CRITICAL,
        )
    try:
        with Client(cluster) as client:
            _wait_for_workers(client, count)
            yield Cluster(client, own=True)
    finally:
        _close(cluster)


def _close(cluster: SpecCluster) -> None:
    """End our workers and their scheduler; one that died can't be asked to let them go."""
    if cluster.scheduler.process.returncode is None:
        cluster.close()
        return
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), suppress(OSError):
        cluster.close()


def _wait_for_workers(client: Client, count: int) -> None:
    try:
        client.wait_for_workers(count, timeout=START_DEADLINE_S)
    except TimeoutError as error:
        msg = f"expected {count} Dask workers within {START_DEADLINE_S} s: {error}"
        raise HeadraceError(msg) from error


def _existing(address: str) -> Iterator[Cluster]:
    try:
        with ThreadPoolExecutor(1) as pool:  # a notebook's own thread runs a loop already
            kind = pool.submit(asyncio.run, _ask(address)).result()
        if kind != "Scheduler":
            msg = f"a Dask {kind}"
            raise ValueError(msg)  # noqa: TRY301 - said as all that is wrong with the address
        client = Client(address, timeout=CONNECT_DEADLINE_S)
    except Exception as error:
        late = isinstance(error, TimeoutError)
        why = f"no answer within {CONNECT_DEADLINE_S} s" if late else in_short(error)
        msg = (
            f"--scheduler: expected a Dask scheduler at {address!r}, got {why}. "
            "Its address looks like tcp://HOST:8786; start one with: dask scheduler"
        )
        raise JobError(msg) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=START_DEADLINE_S)
        except TimeoutError as error:
            msg = (
                f"--scheduler: expected a worker at {address} within {START_DEADLINE_S} s, "
                "got none. Start one with: dask worker " + address
            )
            raise JobError(msg) from error
        yield Cluster(client, own=False)


async def _ask(address: str) -> str:
    """Ask who is there. Dask's client would wait for ever for one that listens and is silent."""
    async with asyncio.timeout(CONNECT_DEADLINE_S), rpc(address) as there:
        identity = await there.identity()
    return str(identity["type"])


def _thread_limits(cores: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(cores))
