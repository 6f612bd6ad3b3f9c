"""What `headrace status` says, from the output folder alone."""

from headrace.schemas.plan import Value
from headrace.schemas.report import Rows


class Status(Value):
    """How far a run has come."""

    output: str
    name: str
    complete: bool  # every shard is committed
    success: bool  # _SUCCESS is there
    rows: Rows
    rows_planned: int
    shards_committed: int
    shards_missing: int
    damaged: dict[str, str]
