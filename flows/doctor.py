"""`headrace doctor`: what this machine has, and which paths a run here will use."""

import importlib.metadata
import importlib.util
import os
import platform
import sys

import psutil
import torch

from headrace.flows.gpus import Gpu, find_gpus
from headrace.kernels.choice import triton_lack
from headrace.schemas.errors import JobError
from headrace.schemas.machine import GpuRoom, Machine
from headrace.stages.cores import own_cores
from headrace.stages.gpu_setup import headroom_bytes, pool_bytes
from headrace.stages.plan import versions
from headrace.stages.processor import multiplies_bf16

GPU_PACKAGES = ("cudf", "cupy", "rmm", "dask_cuda", "triton", "onnxruntime")


def examine() -> Machine:
    """Look at the machine; load nothing that needs a GPU."""
    gpus, notes = _gpus()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Machine(
        platform=f"{platform.system()} {platform.machine()}, Python {sys.version.split()[0]}",
        cores=own_cores(1),
        memory_bytes=psutil.virtual_memory().total,
        gpus=gpus,
        device=device,
        bf16_native=multiplies_bf16(device),
        packages=versions(),
        optional={name: _version(name) for name in GPU_PACKAGES},
        notes=(*notes, *_notes(device)),
    )


def _gpus() -> tuple[tuple[GpuRoom, ...], list[str]]:
    """List the GPUs that a run may use, and what is to be said of them."""
    try:
        found = find_gpus()
    except JobError as error:
        return (), [str(error)]
    notes = []
    if found and not torch.cuda.is_available():
        notes.append(f"torch {torch.__version__} can't use the GPUs: is it the CPU build?")
    return tuple(map(_room, found)), notes


def _room(gpu: Gpu) -> GpuRoom:
    free, total = gpu.free_bytes, gpu.total_bytes
    return GpuRoom(
        id=gpu.id,
        name=gpu.name,
        total_bytes=total,
        free_bytes=free,
        pool_bytes=None if free is None else pool_bytes(free)[1],
        headroom_bytes=None if total is None else headroom_bytes(total),
    )


def _version(module: str) -> str | None:
    """Find an optional package's version without importing it."""
    if importlib.util.find_spec(module) is None:
        return None
    names = importlib.metadata.packages_distributions().get(module, [])
    return importlib.metadata.version(names[0]) if names else "unknown"


def _notes(device: str) -> list[str]:
    notes = []
    lack = triton_lack()
    if device == "cuda" and lack is not None:
        notes.append(f"Triton's kernels do not run, plain torch takes their place: {lack}")
    if device == "cpu":
        notes.append("no CUDA GPU that torch can use: jobs run on the CPU")
    if multiplies_bf16(device):
        notes.append("precision auto: bf16 if it passes the quality gate and wins a short trial")
    else:
        notes.append("precision auto: fp32, since bf16 is not native here")
    if os.environ.get("PREFECT_API_URL"):
        notes.append(f"Prefect: the server at {os.environ['PREFECT_API_URL']}")
    else:
        notes.append("Prefect: the profile's server, else a temporary one that takes 7 to 20 s")
    return notes
