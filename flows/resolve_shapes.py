"""Asks one worker for what a plan needs of the model, and another one if that worker dies."""

import time
from collections.abc import Sequence

from distributed import Future
from distributed.scheduler import KilledWorker

from headrace.flows.cluster import Cluster
from headrace.flows.crew import DEATHS_AT_START, LOOK_S, READY_DEADLINE_S
from headrace.flows.order import on_worker
from headrace.schemas.errors import HeadraceError
from headrace.schemas.job import Job
from headrace.schemas.plan import Resolved, Shard
from headrace.stages.sample import sample_slices
from headrace.stages.survey import Survey


def resolve_shapes(
    job: Job, surveyed: Survey, shards: Sequence[Shard], cluster: Cluster
) -> Resolved:
    """Resolve shapes, precision and width on a worker (stages/resolve.py).

    Raises:
        JobError: the model can't do the job.
        HeadraceError: the workers die of it, or it takes too long.
    """
    rows = sum(shard.rows for shard in shards) // max(1, len(shards))
    for deaths in range(DEATHS_AT_START):
        first, siblings = _first_worker(job, cluster)
        future = cluster.client.submit(
            on_worker,
            "resolve_on_worker",
            job,
            str(surveyed.base),
            surveyed.schema,
            sample_slices(shards),
            rows,
            siblings,
            deaths > 0,  # a row of the sample may kill; the shard that holds it is to be blamed
            workers=[first],
            pure=False,
        )
        resolved = _result(future, first, cluster)
        if resolved is not None:
            return resolved
    msg = (
        f"expected a worker to load the model and to try it on a sample of the rows, and "
        f"{DEATHS_AT_START} died while they did. Is there memory for it? Does the model end its "
        "process? Its own words are above."
    )
    raise HeadraceError(msg)


def _result(future: Future, worker: str, cluster: Cluster) -> Resolved | None:
    """Wait for a worker's answer. Returns None when the worker is gone."""
    start = time.monotonic()
    while time.monotonic() - start < READY_DEADLINE_S:
        try:
            found: Resolved = future.result(timeout=LOOK_S)
        except TimeoutError:
            if worker not in cluster.workers():
                return None
        except KilledWorker:
            return None
        else:
            return found
    msg = f"expected the model to load on {worker} within {READY_DEADLINE_S:.0f} s"
    raise HeadraceError(msg)


def _first_worker(job: Job, cluster: Cluster) -> tuple[str, int]:
    """Wait for a worker. Returns its address, and how many share its host."""
    start = time.monotonic()
    while not (workers := cluster.workers()):
        if time.monotonic() - start > job.compute.worker_timeout_s:
            msg = (
                f"expected a worker within compute.worker_timeout_s "
                f"{job.compute.worker_timeout_s:g} s to make the plan, got none"
            )
            raise HeadraceError(msg)
        time.sleep(LOOK_S)
    first, host = min(workers.items())
    return first, sum(1 for other in workers.values() if other == host)
