"""WHO may take shards: the workers of a scheduler, which join and leave at any time."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from distributed import Future
from distributed.scheduler import KilledWorker

from headrace.flows.cluster import Cluster
from headrace.flows.order import Order, on_worker
from headrace.schemas.errors import HeadraceError, JobError, OutputError
from headrace.stages.wording import in_short

READY_DEADLINE_S = 900.0
LOOK_S = 1.0
# So many workers that die while they load the model: it is not the workers.
DEATHS_AT_START = 3


@dataclass
class Member:
    """One worker."""

    address: str
    threads: int
    loading: Future | None  # until it is ready
    since: float
    state: Literal["loading", "ready", "out"] = "loading"
    shards: set[Future] = field(default_factory=set)

    @property
    def room(self) -> int:
        """How many more shards it may hold: one a thread, and one that waits for the next."""
        return self.threads + 1 - len(self.shards)


class Crew:
    """Follows the scheduler's workers. Each loads the plan and the model before its first shard."""

    def __init__(self, cluster: Cluster, order: Order, say: Callable[[str], None]) -> None:
        """Take a cluster's workers into one run's service."""
        self._cluster, self._order, self._say = cluster, order, say
        self._members: dict[str, Member] = {}
        self._refusals: dict[str, BaseException] = {}
        self._looked = -LOOK_S
        self._deaths = 0
        self._ready_once = False

    def muster(self) -> None:
        """Wait for the first worker that may take shards.

        Raises:
            HeadraceError: none came, or none can take the plan's road.
        """
        start = time.monotonic()
        while not self.ready():
            self.look()
            self._give_up_if_all_refuse()
            if time.monotonic() - start > READY_DEADLINE_S:
                late = ", ".join(sorted(self._members)) or "none is there"
                msg = f"expected a worker to load the model within {READY_DEADLINE_S:.0f} s: {late}"
                raise HeadraceError(msg)
            if not self.ready():
                time.sleep(LOOK_S / 10)

    def ready(self) -> list[Member]:
        """Those who may take shards."""
        return [member for member in self._members.values() if member.state == "ready"]

    def empty(self) -> bool:
        """Whether nobody is there, or on the way, who could take a shard."""
        return all(member.state == "out" for member in self._members.values())

    def leaves(self, address: str) -> None:
        """Give a worker no shard any more: it said that it is about to end."""
        member = self._members.get(address)
        if member is not None and member.state != "out":
            member.state = "out"
            self._say(f"worker {address} is about to end; it gets no more shards")

    def forget(self, member: Member) -> None:
        """Drop a worker that has died, before the scheduler's list says so."""
        self._members.pop(member.address, None)

    def look(self) -> list[Member]:
        """See who came and who is gone, once a second at most. Returns who is gone."""
        for member in [*self._members.values()]:
            if member.loading is not None and member.loading.done():
                self._settle(member, member.loading)
        if time.monotonic() - self._looked < LOOK_S:
            return []
        self._looked = time.monotonic()
        infos = self._cluster.infos()
        for address, info in infos.items():
            if address not in self._members and address not in self._refusals:
                self._join(address, int(info["nthreads"]))
        for member in self._members.values():
            self._check_deadline(member)
        gone = [member for address, member in self._members.items() if address not in infos]
        for member in gone:
            del self._members[member.address]
            if member.state == "loading":
                self._died_loading(member)
        return gone

    def _join(self, address: str, threads: int) -> None:
        if self._ready_once:
            self._say(f"worker {address} has come; it loads the model")
        future = self._cluster.client.submit(
            on_worker, "get_ready", self._order, workers=[address], pure=False, retries=0
        )
        self._members[address] = Member(address, threads, future, time.monotonic())

    def _settle(self, member: Member, future: Future) -> None:
        """Take a worker that has loaded the model, or not."""
        if future.cancelled():  # nobody here cancels it
            raise self._cluster.lost()
        member.loading = None
        error = future.exception()
        if error is None:
            member.state, self._ready_once = "ready", True
        elif isinstance(error, JobError | OutputError):
            raise error
        else:
            del self._members[member.address]
            if isinstance(error, KilledWorker):
                self._died_loading(member)
            else:
                self._refuse(member, error)

    def _refuse(self, member: Member, error: BaseException) -> None:
        self._refusals[member.address] = error
        if self._members or self._ready_once:
            why = str(error) if isinstance(error, HeadraceError) else in_short(error)
            self._say(f"worker {member.address} takes no shard: {why}")

    def _died_loading(self, member: Member) -> None:
        self._deaths += 1
        if self._deaths >= DEATHS_AT_START and not self._ready_once:
            msg = (
                f"expected a worker to load the model, and {self._deaths} died while they did, "
                f"the last one {member.address}. Is there memory for it? `headrace plan` says "
                "what it takes."
            )
            raise HeadraceError(msg)

    def _check_deadline(self, member: Member) -> None:
        if member.loading is not None and time.monotonic() - member.since > READY_DEADLINE_S:
            member.loading = None
            member.state = "out"
            self._say(
                f"worker {member.address} takes no shard: it has not loaded the model within "
                f"{READY_DEADLINE_S:.0f} s"
            )

    def _give_up_if_all_refuse(self) -> None:
        if self._refusals and not self._members:
            raise next(iter(self._refusals.values()))
