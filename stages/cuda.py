"""What the forward pass asks of CUDA, in one place: streams, events, pinned memory, graphs.

Tests stand in for this class to show that nothing is read before it is there; see also the rules in
handover.py. Two streams: batches are computed on one, results are copied out on the other.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from headrace.stages.sticky import CAPTURE_LOCK

Event = Any  # torch.cuda.Event, or a test's
ResultT = TypeVar("ResultT")
WARM_UPS = 2  # before a capture: libraries allocate and choose kernels in their first calls


class Cuda:
    """The process's GPU, as the device thread uses it."""

    def __init__(self) -> None:
        """Make the streams; both are non-blocking towards CUDA's default streams."""
        torch.cuda.synchronize()  # for a model whose loading is still under way on those
        self._compute: Any = torch.cuda.Stream()
        self._copies: Any = torch.cuda.Stream()
        self._pool: Any = torch.cuda.graph_pool_handle()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Let what is begun here run on the computing stream."""
        with torch.cuda.stream(self._compute):
            yield

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Make room on the device."""
        return torch.empty(tuple(shape), dtype=dtype, device="cuda")

    def pinned(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Make room on the host that copies can reach by themselves."""
        return torch.empty(tuple(shape), dtype=dtype, pin_memory=True)

    def to_device(self, values: torch.Tensor) -> torch.Tensor:
        """Begin a copy to the device on the current stream."""
        return values.pin_memory().to("cuda", non_blocking=True)

    def copy_out(self, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Event:
        """Begin copies (to pinned, from device) behind all that is computing now."""
        ready = self.mark()
        with torch.cuda.stream(self._copies):
            self._copies.wait_event(ready)
            for target, source in pairs:
                target.copy_(source, non_blocking=True)
            done = torch.cuda.Event(enable_timing=True)
            done.record()
        return done

    def mark(self) -> Event:
        """Mark this moment of the computing stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._compute)
        return event

    def wait(self, event: Event) -> None:
        """Let the host wait for an event."""
        event.synchronize()

    def seconds(self, start: Event, end: Event) -> float:
        """Tell the time between two events that are over."""
        return float(start.elapsed_time(end)) / 1e3

    def capture(self, work: Callable[[], ResultT]) -> tuple[Callable[[], None], ResultT]:
        """Record work on static tensors as a graph; all graphs share one pool of memory.

        Returns:
            What runs it again on the current stream, and what it gives, which each replay of any
            graph may overwrite.
        """
        with self.computing():
            for _ in range(WARM_UPS):
                work()
        self._compute.synchronize()
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with (
                CAPTURE_LOCK,
                torch.cuda.graph(
                    graph, pool=self._pool, stream=self._compute, capture_error_mode="thread_local"
                ),
            ):
                result = work()
        except Exception:
            # A capture that breaks off leaves its stream current and its pool in doubt.
            torch.cuda.set_stream(before)
            self._pool = torch.cuda.graph_pool_handle()
            raise
        return graph.replay, result

    def memory(self) -> tuple[int, int]:
        """Tell the bytes that this process may still take or holds unused, and all there are."""
        free, total = torch.cuda.mem_get_info()
        return free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated(), total

    def peak_bytes(self, work: Callable[[], object]) -> int:
        """Do some work and tell how much device memory it took beside what was there before."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    def give_back(self) -> None:
        """Hand unused memory back, after it ran out."""
        torch.cuda.empty_cache()


def device_uuid() -> str:
    """Name the process's GPU as NVML does: GPU-… or MIG-…."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if visible.startswith(("GPU-", "MIG-")) and "," not in visible:
        return visible
    return f"GPU-{torch.cuda.get_device_properties(0).uuid}"
