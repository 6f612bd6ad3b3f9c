"""What the client sends to workers, light enough for a client that never loads torch."""

from dataclasses import dataclass
from typing import Any, Literal

from headrace.schemas.job import Job
from headrace.schemas.report import Price
from headrace.stages.places import AnyPath, place_of

# The functions of flows/worker.py.
Task = Literal[
    "resolve_on_worker", "get_ready", "run_shard", "begin_no_more", "say_goodbye", "leave"
]


def on_worker(task: Task, *args: object) -> Any:  # noqa: ANN401 - whatever the task gives
    """Call a function of flows/worker.py. Dask finds this one by its module's name."""
    from headrace.flows import worker

    return getattr(worker, task)(*args)


@dataclass(frozen=True)
class Order:
    """What every task of one run tells its worker."""

    invocation: str
    job: Job
    output: str  # the absolute path or the URL: a worker may stand in another folder
    base: str  # of the input's files, likewise; see `base_place`
    workers_by_host: tuple[tuple[str, int], ...]
    own_process: bool  # the process was started for this run alone

    @property
    def out(self) -> AnyPath:
        """The output folder. Made here: what opens a store is not sent around."""
        return place_of(self.output, "output.path", self.job.output.storage_options)

    def siblings(self, host: str) -> int:
        """How many workers share this host; one on a host that came later."""
        return dict(self.workers_by_host).get(host, 1)

    def worker_price(self, host: str) -> Price | None:
        """One worker's part of its host's price."""
        price = self.job.price
        if price is None:
            return None
        return Price(
            worker_per_hour=price.per_hour / self.siblings(host),
            currency=price.currency,
            source=price.source,
            date=price.date,
        )


@dataclass(frozen=True)
class NotBegun:
    """What a shard gives that was not computed because its run, or its worker, is about to end."""

    leaving: bool = False  # it is the worker
