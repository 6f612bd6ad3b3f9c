"""How many processor cores a worker may use."""

import os

READERS = 3  # threads of a worker: one shard is read and tokenized, one computed, one written


def own_cores(workers_on_host: int) -> int:
    """This worker's share of the cores that the process may run on, at least one."""
    return max(1, len(os.sched_getaffinity(0)) // workers_on_host)
