"""What `headrace verify` found."""

from headrace.schemas.plan import Value
from headrace.schemas.report import Rows


class Verification(Value):
    """The proof, or what is wrong with it."""

    output: str
    ok: bool
    faults: tuple[str, ...]
    rows: Rows  # as the data files themselves say
    rows_planned: int
    shards: int  # committed and whole
    shards_planned: int
    bytes_read: int
