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
    separator = pa.scalar(" ", pa.large_string())
    values = pc.binary_join_element_wise(
        *(part.values for part in parts), separator, null_handling="skip"
    )
    all_null = [pc.is_null(part.values) for part in parts]
    nothing = all_null[0]
    for other in all_null[1:]:
        nothing = pc.and_(nothing, other)
    values = pc.if_else(nothing, pa.scalar(None, pa.large_string()), values)
    return Texts(_blanked(values, faults), faults)


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
