"""Step 4a: check a text column as UTF-8; a bad byte costs its own row only."""

from collections.abc import Collection
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from headrace.stages.unify import is_plain_text

BAD_UTF8 = "UnicodeDecodeError in preprocess"


@dataclass(frozen=True)
class Texts:
    """One text a row. A row is null for a null input and for a fault, which has a reason."""

    values: pa.LargeStringArray
    faults: dict[int, str] = field(default_factory=dict)  # row -> reason


def is_text(kind: pa.DataType) -> bool:
    """Say whether Arrow holds text so, dictionaries of text and JSON included."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return is_plain_text(kind.storage_type if isinstance(kind, pa.JsonType) else kind)


def valid_text(column: pa.ChunkedArray) -> Texts:
    """Validate a column of any of Arrow's text types (or of nulls alone) as UTF-8."""
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
        return Texts(blanked(data, faults).cast(pa.large_string()), faults)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def blanked(values: pa.Array, rows: Collection[int]) -> pa.Array:
    """Null these rows."""
    if not rows:
        return values
    numbers = pa.array(range(len(values)), pa.int64())
    bad = pc.is_in(numbers, value_set=pa.array(list(rows), pa.int64()))
    return pc.if_else(bad, pa.scalar(None, values.type), values)
