"""What the plan needs to know of an input file, whatever its format."""

from dataclasses import dataclass

import pyarrow as pa

from headrace.schemas.plan import InputFile, Span
from headrace.stages.listing import Listed


@dataclass(frozen=True)
class RowGroup:
    """Some rows that are read together.

    `size_bytes` as Parquet counts them: encoded, not compressed. `span`: where they lie in a text
    file.
    """

    rows: int
    size_bytes: int
    span: Span | None = None


@dataclass(frozen=True)
class FileFault:
    """Why a part of a file can't be read."""

    why: str
    row_group: int | None = None  # None: the file as a whole
    column: str | None = None  # None: every column


@dataclass(frozen=True)
class Footer:
    """What the plan needs to know of one file."""

    listed: Listed
    file: InputFile
    schema: pa.Schema
    row_groups: tuple[RowGroup, ...]
    faults: tuple[FileFault, ...] = ()


def rows_only(rows: int) -> pa.Table:
    """Make a table that has rows, and no column that anyone asked for."""
    return pa.table({"": pa.nulls(rows)})
