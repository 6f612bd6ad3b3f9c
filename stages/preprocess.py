"""Step 4: make the model's texts of the input's columns; a bad byte costs its own row only."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

BAD_UTF8 = "UnicodeDecodeError in preprocess"


@dataclass(frozen=True)
class Texts:
    """One text a row. A row is null for a null input and for a fault, which has a reason."""

    values: pa.LargeStringArray
    faults: dict[int, str] = field(default_factory=dict)  # row -> reason


def model_texts(table: pa.Table, columns: Sequence[str]) -> Texts:
    """Validate the text columns as UTF-8 and join them by a space.

    Args:
        table: holds the columns, of any of Arrow's text types, dictionaries of text included.
        columns: one or more; a row is null only if all are.
    """
    parts = [_valid_text(table.column(name)) for name in columns]
    faults = {row: reason for part in parts for row, reason in part.faults.items()}
    if len(parts) == 1:
        return parts[0]
    return Texts(_blanked(_joined([part.values for part in parts]), faults), faults)


def _joined(columns: list[pa.LargeStringArray]) -> pa.LargeStringArray:
    """Join by a space, nulls left out; null where all are."""
    nothing = pc.is_null(columns[0])
    for column in columns[1:]:
        nothing = pc.and_(nothing, pc.is_null(column))
    # `skip` would leave a row of nulls out of the result, and misalign all that follow.
    first = pc.if_else(nothing, pa.scalar("", pa.large_string()), columns[0])
    separator = pa.scalar(" ", pa.large_string())
    joined = pc.binary_join_element_wise(first, *columns[1:], separator, null_handling="skip")
    return pc.if_else(nothing, pa.scalar(None, pa.large_string()), joined)


def _valid_text(column: pa.ChunkedArray) -> Texts:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    # As bytes first: casting bytes to text is what checks them.
    data = column.cast(pa.large_binary()).combine_chunks()
    try:
        return Texts(data.cast(pa.large_string()))
    except pa.ArrowInvalid:
        faults = {
            row: BAD_UTF8
            for row, value in enumerate(data.to_pylist())
            if value is not None and not _is_utf8(value)
        }
        return Texts(_blanked(data, faults).cast(pa.large_string()), faults)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _blanked(values: pa.Array, faults: dict[int, str]) -> pa.Array:
    """Null the rows that have a fault."""
    if not faults:
        return values
    rows = pa.array(range(len(values)), pa.int64())
    bad = pc.is_in(rows, value_set=pa.array(list(faults), pa.int64()))
    return pc.if_else(bad, pa.scalar(None, values.type), values)
