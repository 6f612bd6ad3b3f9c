"""What makes a worker's process: one for each GPU of a machine, elsewhere as many as asked."""

import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from headrace.flows import gpu_nanny, shield
from headrace.flows.gpus import Gpu, find_gpus
from headrace.schemas.errors import JobError
from headrace.stages.cores import READERS, own_cores

RAPIDS = ("dask_cuda", "rmm")
START_DEADLINE_S = 60
GPU_START_DEADLINE_S = 180  # a worker imports cuDF and makes its pool first


@dataclass(frozen=True)
class WorkerSpec:
    """One worker process: its nanny's class, and what is given to it as JSON."""

    nanny: str
    settings: dict[str, Any]


def worker_specs(
    device: str,
    wanted: Literal["auto"] | int,
    key: str,
    say: Callable[[str], None],
    more: dict[str, Any],
) -> tuple[list[WorkerSpec], int]:
    """Say what workers to start on this machine.

    Args:
        device: auto, cpu or cuda, as in a job.
        wanted: how many; auto: one for each GPU, or one.
        key: who asked for that many, for the message.
        say: is told what the user should know of the workers.
        more: settings of every worker, for Dask.

    Returns:
        The workers, and the seconds in which they must have started.

    Raises:
        JobError: there are fewer GPUs than workers.
    """
    gpus = () if device == "cpu" else find_gpus()
    count = _count(wanted, len(gpus), key)
    if gpus:
        deadline_s, kinds = GPU_START_DEADLINE_S, _gpu_workers(gpus[:count], say)
    else:
        env = _thread_limits(own_cores(count))
        deadline_s, kinds = START_DEADLINE_S, [(shield.ShieldedNanny, {"env": env})] * count
    every = {
        "nthreads": READERS,
        "memory_limit": 0,
        "death_timeout": deadline_s,
        "silence_logs": logging.CRITICAL,
        **more,
    }
    return [
        WorkerSpec(f"{kind.__module__}.{kind.__name__}", {**every, **own}) for kind, own in kinds
    ], deadline_s


def _count(wanted: Literal["auto"] | int, gpus: int, key: str) -> int:
    if wanted == "auto":
        return max(1, gpus)
    if gpus and wanted > gpus:
        msg = (
            f"{key}: expected at most {gpus}, one for each GPU of this machine, got {wanted}. "
            "Ask for fewer, or set compute.device: cpu."
        )
        raise JobError(msg)
    return wanted


def _gpu_workers(
    gpus: tuple[Gpu, ...], say: Callable[[str], None]
) -> list[tuple[type[shield.ShieldedNanny], dict[str, Any]]]:
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


def _thread_limits(cores: int) -> dict[str, str]:
    # Dask allows one thread a library; the device thread uses this worker's share.
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(cores))
