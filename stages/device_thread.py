"""The one thread of a worker that runs every forward pass: one stream, one OpenMP team."""

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from headrace.stages.ledger import Account, WorkerLedger

ResultT = TypeVar("ResultT")

# glibc's mallopt (malloc.h), and the largest mmap threshold that it takes.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 1 << 30
MMAP_BYTES = 32 << 20


class DeviceThread:
    """Runs one piece of work after the other."""

    def __init__(self, threads: int) -> None:
        """Start the thread. A CPU forward pass may use this many processor threads."""
        self.threads = threads
        self._pool = ThreadPoolExecutor(
            1, thread_name_prefix="headrace-device", initializer=_settle_in, initargs=(threads,)
        )

    def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Run work that belongs to no shard, such as loading the model."""
        return self._pool.submit(work).result()

    def run_for(
        self, ledger: WorkerLedger, account: Account, work: Callable[[], ResultT]
    ) -> tuple[ResultT, float]:
        """Run a shard's forward pass, and tell the ledger when it holds the device.

        Returns:
            Its result, and the seconds that it waited for its turn.
        """
        asked = time.perf_counter()

        def turn() -> tuple[ResultT, float]:
            waited_s = time.perf_counter() - asked
            ledger.take_device(account)
            try:
                return work(), waited_s
            finally:
                ledger.leave_device()

        return self._pool.submit(turn).result()


def _settle_in(threads: int) -> None:
    # Dask gives its workers one thread a process; what counts is set here, on the thread that uses
    # it.
    torch.set_num_threads(threads)
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Let glibc keep the memory of freed tensors for the next batch.

    Dask makes its workers hand memory back to the system early (MALLOC_TRIM_THRESHOLD_=65536).
    Every batch then faults its pages in anew: measured with MiniLM on 2 cores, 1.5 times slower.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # absent outside glibc
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, MMAP_BYTES)
