"""What `headrace verify` found."""

from headrace.schemas.plan import Value
from headrace.schemas.report import Rows


class Rechecked(Value):
    """What it showed to compute a sample of the output again."""

    faults: tuple[str, ...] = ()
    parts: int = 0
    rows_compared: int = 0  # with the input, in the columns that the output keeps
    rows_recomputed: int = 0
    lowest_likeness: float | None = None  # of a row; 1: the same (stages/alike.py)

    def __add__(self, other: "Rechecked") -> "Rechecked":
        """Add what other parts showed."""
        known = [one.lowest_likeness for one in (self, other) if one.lowest_likeness is not None]
        return Rechecked(
            faults=self.faults + other.faults,
            parts=self.parts + other.parts,
            rows_compared=self.rows_compared + other.rows_compared,
            rows_recomputed=self.rows_recomputed + other.rows_recomputed,
            lowest_likeness=min(known, default=None),
        )


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
    deep: Rechecked | None = None  # null without --deep
