"""How data changes hands: host to device, cuDF to CuPy to torch, thread to thread.

The rules for streams and lifetimes, in this one place:

1. A reader thread works on streams of its own: cuDF and CuPy on CUDA's per-thread default stream
   (gpu_setup.py), torch on the side stream of `own_stream`. The device thread has others (cuda.py),
   which wait for none of them.
2. A thread gives a tensor away only after the stream that made it has finished: `own_stream` waits
   at its end, and `tensor_of` waits for cuDF's stream before torch looks at its memory.
3. A tensor made of cuDF's memory shares it and keeps it alive (DLPack).
4. What the device thread was given is kept until it has waited for the shard's last batch, also
   where the shard fails (isolate.py). So no allocator hands memory out again while a kernel may
   still read it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from headrace.stages.ragged import Ragged

_THREAD = threading.local()


@dataclass(frozen=True)
class RaggedOnDevice:
    """A shard's tokens where the model is (see stages/ragged.py)."""

    ids: torch.Tensor  # (T,) int32
    starts: torch.Tensor  # (N,) int64
    counts: torch.Tensor  # (N,) int64
    before: torch.Tensor  # (P,) int64
    behind: torch.Tensor  # (S,) int64


@contextmanager
def own_stream(device: str) -> Iterator[None]:
    """Let torch work on a stream that no other thread waits for, and wait for it at the end."""
    if device != "cuda":
        yield
        return
    if not hasattr(_THREAD, "stream"):  # torch has few, and would give the device thread's again
        _THREAD.stream = torch.cuda.Stream()
    with torch.cuda.stream(_THREAD.stream):
        yield
    _THREAD.stream.synchronize()


def put(ragged: Ragged, device: str) -> RaggedOnDevice:
    """Copy a shard's ragged tokens to the device; what is there already stays where it is."""
    specials = (ragged.specials.before, ragged.specials.behind)
    with own_stream(device):
        return RaggedOnDevice(
            moved(ragged.ids, device),
            moved(ragged.starts, device),
            moved(ragged.counts, device),
            *(moved(np.array(tokens, np.int64), device) for tokens in specials),
        )


def moved(values: npt.NDArray[Any] | torch.Tensor, device: str) -> torch.Tensor:
    """Copy values to the device, asynchronously on the current stream; or leave them there."""
    tensor = torch.as_tensor(values)
    if tensor.device.type == device:
        return tensor
    # Only a copy from pinned memory is asynchronous.
    return tensor.pin_memory().to(device, non_blocking=True)


def settle_cudf() -> None:
    """Wait for what cuDF and CuPy have begun on this thread."""
    import cupy

    for stream in (cupy.cuda.Stream.ptds, cupy.cuda.Stream.null):  # cuDF's, and without our setting
        stream.synchronize()


def tensor_of(memory: Any, dtype: npt.DTypeLike) -> torch.Tensor:  # noqa: ANN401 - anything with CUDA's array interface
    """See memory of cuDF or CuPy as a flat tensor of a dtype, without a copy."""
    import cupy

    settle_cudf()
    tensor: torch.Tensor = torch.utils.dlpack.from_dlpack(cupy.asarray(memory).view(dtype))
    return tensor
