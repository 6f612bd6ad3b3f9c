"""Arrow types by name, as `input.types` writes them: `timestamp[us, tz=UTC]`, `list<int64>`."""

import re
from collections.abc import Iterator

import pyarrow as pa

from headrace.schemas.errors import JobError

EXAMPLES = (
    "string, int64, float64, bool, date32, timestamp[us, tz=UTC], decimal128(10, 2), "
    "list<string>, struct<a: int64>"
)


def parse_type(text: str, column: str) -> pa.DataType:
    """Parse an Arrow type's name.

    Args:
        text: as Arrow prints it.
        column: whose type it is, for the message.

    Raises:
        JobError: there is no such type.
    """
    try:
        return _parse(text.strip())
    except ValueError as error:
        msg = (
            f"input.types: expected an Arrow type for column {column!r} (such as {EXAMPLES}), "
            f"got {text!r}"
        )
        raise JobError(msg) from error


def _parse(text: str) -> pa.DataType:
    if match := re.fullmatch(r"(decimal128|decimal256)\((\d+), *(-?\d+)\)", text):
        make = {"decimal128": pa.decimal128, "decimal256": pa.decimal256}[match[1]]
        return make(int(match[2]), int(match[3]))
    if match := re.fullmatch(r"timestamp\[(s|ms|us|ns), *tz=([\w/+:-]+)\]", text):
        return pa.timestamp(match[1], match[2])
    if match := re.fullmatch(r"(list|large_list)<(?:(?:item|element): *)?(.+)>", text):
        make = {"list": pa.list_, "large_list": pa.large_list}[match[1]]
        return make(_parse(match[2].strip()))
    if match := re.fullmatch(r"struct<(.+)>", text):
        return pa.struct([_field(part) for part in _split(match[1])])
    return pa.type_for_alias(text)


def _field(text: str) -> pa.Field:
    name, colon, kind = text.partition(":")
    if not colon:
        raise ValueError(text)
    return pa.field(name.strip(), _parse(kind.strip()))


def _split(text: str) -> Iterator[str]:
    """Split at the commas that lie outside of all brackets."""
    depth = start = 0
    for at, char in enumerate(text):
        depth += (char in "<[(") - (char in ">])")
        if char == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]
