"""WHERE it runs: a Dask cluster of worker subprocesses here, or a scheduler that exists already.

Where the job may use GPUs and there are some, each worker has one. Dask-CUDA's own cluster is not
used: it starts workers by `multiprocessing`, which fails in a script without a main guard.
"""

import asyncio
import importlib.util
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import dask
from distributed import Client
from distributed.core import rpc
from distributed.deploy.spec import SpecCluster
from distributed.deploy.subprocess import SubprocessScheduler, SubprocessWorker

from headrace.flows import gpu_nanny, no_nvml, shield
from headrace.flows.gpus import Gpu, find_gpus
from headrace.schemas.errors import HeadraceError, JobError
from headrace.schemas.job import Job
from headrace.stages.cores import READERS, own_cores
from headrace.stages.wording import in_short

START_DEADLINE_S = 60
GPU_START_DEADLINE_S = 180  # a worker imports cuDF and makes its pool first
LOOK_S = 1
RAPIDS = ("dask_cuda", "rmm")
HOST = "127.0.0.1"
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
def open_cluster(
    job: Job, scheduler: str | None, workers: int | None, say: Callable[[str], None]
) -> Iterator[Cluster]:
    """Start a cluster for this run, or connect to an existing scheduler.

    Args:
        job: says how many workers, and whether they may use GPUs.
        scheduler: the address of an existing scheduler, or None.
        workers: overrides the job's number.
        say: is told what the user should know of the workers.

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
        yield from _existing(scheduler)
        return
    gpus = () if job.compute.device == "cpu" else find_gpus()
    count = _count(job, workers, len(gpus))
    if gpus:
        yield from _own(_gpu_workers(gpus[:count], say), GPU_START_DEADLINE_S)
    else:
        yield from _own(_plain_workers(count), START_DEADLINE_S)


def _count(job: Job, workers: int | None, gpus: int) -> int:
    wanted = job.compute.workers if workers is None else workers
    if wanted == "auto":
        return max(1, gpus)
    if gpus and wanted > gpus:
        key = "compute.workers" if workers is None else "--workers"
        msg = (
            f"{key}: expected at most {gpus}, one for each GPU of this machine, got {wanted}. "
            "Ask for fewer, or set compute.device: cpu."
        )
        raise JobError(msg)
    return wanted


# What makes one worker: its nanny's class, and the arguments that differ from worker to worker.
_Worker = tuple[type[shield.ShieldedNanny], dict[str, Any]]


def _plain_workers(count: int) -> list[_Worker]:
    return [(shield.ShieldedNanny, {"env": _thread_limits(own_cores(count))})] * count


def _gpu_workers(gpus: tuple[Gpu, ...], say: Callable[[str], None]) -> list[_Worker]:
    missing = [name for name in RAPIDS if importlib.util.find_spec(name) is None]
    if missing:
        say(
            f"no {' and no '.join(missing)} here: the GPU workers go without RMM's memory pool, "
            "cuDF's spilling and the cores near their GPUs; pip install 'headrace[cuda13]'"
        )
    env = _thread_limits(own_cores(len(gpus)))
    return [
        (
            gpu_nanny.GpuNanny,
            {
                "env": env,
                "gpu": gpu.id,
                "cores": gpu.cores,
                "free_bytes": gpu.free_bytes,
                "rapids": not missing,
            },
        )
        for gpu in gpus
    ]


def _own(workers: list[_Worker], deadline_s: int) -> Iterator[Cluster]:
    with shield.shielded():
        cluster = SpecCluster(
            scheduler=_scheduler_spec(),
            workers={at: _worker_spec(worker, deadline_s) for at, worker in enumerate(workers)},
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


def _worker_spec(worker: _Worker, deadline_s: int) -> dict[str, Any]:
    kind, own_settings = worker
    settings = {
        "host": HOST,
        "nthreads": READERS,
        "memory_limit": 0,
        "death_timeout": deadline_s,
        "silence_logs": logging.CRITICAL,
        **own_settings,
    }
    options = {"worker_class": f"{kind.__module__}.{kind.__name__}", "worker_kwargs": settings}
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
    # Dask allows one thread a library; the device thread uses this worker's share.
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(cores))
