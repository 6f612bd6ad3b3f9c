"""Which GPUs this machine lets a run use, asked of NVML: no CUDA context, and no torch."""

import os
from dataclasses import dataclass
from typing import Any

import pynvml

from headrace.schemas.errors import JobError

# Each ends the list, as for CUDA; the last one is Slurm's word.
NONE = ("", "-1", "NoDevFiles")
WORD_BITS = 64


@dataclass(frozen=True)
class Gpu:
    """A device that one worker can have: a GPU, or a MIG instance of one."""

    id: str  # its UUID, which CUDA_VISIBLE_DEVICES takes
    name: str
    total_bytes: int | None  # None where it shares the host's memory
    free_bytes: int | None
    cores: tuple[int, ...]  # those of this process's cores that are near; () where NVML can't tell


@dataclass(frozen=True)
class _Card:
    """A GPU as NVML numbers it, and what a run can use of it: itself, or its MIG instances."""

    uuid: str
    name: str
    usable: tuple[Gpu, ...]


def find_gpus() -> tuple[Gpu, ...]:
    """List the GPUs that CUDA_VISIBLE_DEVICES leaves visible, in its order.

    Without an NVIDIA driver there are none.

    Raises:
        JobError: CUDA_VISIBLE_DEVICES names what is not there, or the driver answers with an error.
    """
    wanted = _wanted()
    if wanted == []:
        return ()
    try:
        pynvml.nvmlInit()
        try:
            cards = _cards()
        finally:
            pynvml.nvmlShutdown()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return ()
    except pynvml.NVMLError as error:
        msg = (
            f"expected the NVIDIA driver to list its GPUs, got {error}. "
            "Mend it (nvidia-smi shows the same), or set compute.device: cpu."
        )
        raise JobError(msg) from error
    if wanted is None:
        return tuple(gpu for card in cards for gpu in card.usable)
    return _once(tuple(gpu for entry in wanted for gpu in _named(entry, cards)))


def _wanted() -> list[str] | None:
    """Read CUDA_VISIBLE_DEVICES up to where its list ends; None where it is not set."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return None
    entries = [entry.strip() for entry in visible.split(",")]
    end = next((at for at, entry in enumerate(entries) if entry in NONE), len(entries))
    return entries[:end]


def _named(entry: str, cards: list[_Card]) -> tuple[Gpu, ...]:
    """Find what one entry of CUDA_VISIBLE_DEVICES means: an index, or the start of one UUID."""
    if entry.isdecimal():
        _refuse_doubtful_order(cards)
        found = [card.usable for card in cards[int(entry) :][:1]]
    elif entry.startswith("MIG-"):
        found = [(gpu,) for card in cards for gpu in card.usable if gpu.id.startswith(entry)]
    elif entry.startswith("GPU-"):
        found = [card.usable for card in cards if card.uuid.startswith(entry)]
    else:
        found = []
    if len(found) != 1:
        there = [card.uuid for card in cards]
        there += [gpu.id for card in cards for gpu in card.usable if gpu.id not in there]
        msg = (
            "CUDA_VISIBLE_DEVICES: expected indices or UUIDs of GPUs of this machine, got "
            f"{entry!r}, which is {len(found)} of {', '.join(there) or 'none'}."
        )
        raise JobError(msg)
    return found[0]


def _refuse_doubtful_order(cards: list[_Card]) -> None:
    """Refuse indices where CUDA may count otherwise than NVML: it puts the fastest GPU first."""
    names = sorted({card.name for card in cards})
    if len(names) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        msg = (
            "CUDA_VISIBLE_DEVICES: expected UUIDs, got an index, and CUDA's order of unlike GPUs "
            f"({', '.join(names)}) is not known. Name UUIDs (nvidia-smi -L lists them), or set "
            "CUDA_DEVICE_ORDER=PCI_BUS_ID."
        )
        raise JobError(msg)


def _once(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    ids = [gpu.id for gpu in gpus]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice is not None:
        msg = f"CUDA_VISIBLE_DEVICES: expected each GPU once, got {twice} again."
        raise JobError(msg)
    return gpus


def _cards() -> list[_Card]:
    handles = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(pynvml.nvmlDeviceGetCount())]
    return [
        _Card(
            uuid=pynvml.nvmlDeviceGetUUID(handle),
            name=pynvml.nvmlDeviceGetName(handle),
            usable=tuple(_gpu(one, _near_cores(handle)) for one in _devices(handle)),
        )
        for handle in handles
    ]


def _devices(handle: Any) -> list[Any]:  # noqa: ANN401 - C pointers
    """List the MIG instances of a GPU that is in that mode, and of another the GPU itself."""
    try:
        mode, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return [handle]
    if mode != pynvml.NVML_DEVICE_MIG_ENABLE:
        return [handle]
    found = []
    for at in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            found.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, at))
        except pynvml.NVMLError_NotFound:  # the places of a GPU need not all be taken
            continue
    return found


def _gpu(handle: Any, cores: tuple[int, ...]) -> Gpu:  # noqa: ANN401 - a C pointer
    total_bytes = free_bytes = None
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        total_bytes, free_bytes = int(memory.total), int(memory.free)
    except pynvml.NVMLError_NotSupported:
        pass  # it has no memory of its own
    return Gpu(
        id=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        total_bytes=total_bytes,
        free_bytes=free_bytes,
        cores=cores,
    )


def _near_cores(handle: Any) -> tuple[int, ...]:  # noqa: ANN401 - a C pointer
    """Say which of our cores are near a GPU; a virtual machine may not know."""
    ours = os.sched_getaffinity(0)
    try:
        words = pynvml.nvmlDeviceGetCpuAffinity(handle, max(ours) // WORD_BITS + 1)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_Unknown):
        return ()
    return tuple(core for core in sorted(ours) if words[core // WORD_BITS] >> core % WORD_BITS & 1)
