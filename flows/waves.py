"""The reporting groups of a run's shards."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.schemas.plan import Shard

WAVES = 50


@dataclass
class Wave:
    """A reporting group of shards. `done` is set when nothing more will happen to them."""

    index: int
    shards: int
    left: int
    started: bool = False
    failed: list[str] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)


def waves_of(shards: Sequence[Shard]) -> list[Wave]:
    """Group the shards into at most 50 waves of equal size."""
    size = max(1, -(-len(shards) // WAVES))
    groups = (min(size, len(shards) - start) for start in range(0, len(shards), size))
    return [Wave(index, number, number) for index, number in enumerate(groups)]
