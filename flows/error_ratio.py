"""Whether so many rows failed that a run must stop."""

from headrace.schemas.report import Rows

# Too few rows say nothing about a ratio.
JUDGED_FROM_ROWS = 1_000


def too_many_errors(rows: Rows, max_ratio: float) -> str | None:
    """Say why a run must stop, if so many of its rows failed."""
    if rows.in_ < JUDGED_FROM_ROWS or rows.errors <= max_ratio * rows.in_:
        return None
    return (
        f"{rows.errors:,} of {rows.in_:,} rows failed, above errors.max_ratio {max_ratio:g}; "
        "see _headrace/errors/ for the rows and their reasons"
    )
