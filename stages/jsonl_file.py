"""Steps 1b and 3 for JSON Lines: one object a line; blank lines are skipped.

Python's own parser and pyarrow's own inference, block by block. (pyarrow's JSON reader turns texts
that look like dates into timestamps, rounds large numbers, and dies on a line that says `null`.)
"""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.schemas.errors import JobError
from headrace.schemas.job import InputSpec
from headrace.schemas.plan import Span
from headrace.stages.footer import Footer, RowGroup, rows_only
from headrace.stages.listing import Listed
from headrace.stages.places import AnyPath
from headrace.stages.text_blocks import TextFile, read_span
from headrace.stages.type_names import parse_type
from headrace.stages.unify import is_plain_text, unify_fields


def jsonl_footer(entry: Listed, spec: InputSpec) -> Footer:
    """Parse a whole file once: its columns and their types, its rows, where its blocks lie.

    A column takes the type that the job gives, else the one that its values have.

    Raises:
        JobError: a line is no JSON object, or a column's values have no common type.
    """
    file = TextFile(entry.file)
    types = {name: parse_type(text, name) for name, text in spec.types.items()}
    fields = {name: pa.field(name, kind) for name, kind in types.items()}
    groups = []
    for block in file.blocks(lambda data: data.rfind(b"\n") + 1):
        objects = _objects(block.data, block.span[0], entry.file)
        for name in dict.fromkeys(key for entries in objects for key in entries):
            array = _array(objects, name, types.get(name), entry.file)
            field = pa.field(name, array.type)
            fields[name] = _merged(fields.get(name, field), field, entry.file)
        if objects:
            groups.append(RowGroup(len(objects), block.span[1], block.span))
    return file.footer(entry, groups, pa.schema(fields.values()))


def read_jsonl(file: AnyPath, span: Span, wanted: pa.Schema) -> pa.Table:
    """Read one block: these columns, in these types, null where an object lacks one.

    Raises:
        JobError: it can't be parsed, or a value does not fit its type.
    """
    objects = _objects(read_span(file, span), span[0], file)
    if not wanted.names:
        return rows_only(len(objects))
    arrays = [_array(objects, field.name, field.type, file) for field in wanted]
    return pa.Table.from_arrays(arrays, names=wanted.names)


def _objects(data: bytes, offset: int, file: AnyPath) -> list[dict[str, Any]]:
    """Parse the lines; bytes that are no UTF-8 become lone surrogates, which `_array` undoes."""
    objects = []
    for line in data.split(b"\n"):
        if line.strip():
            try:
                objects.append(_DECODER.decode(line.decode("utf-8", "surrogateescape").strip()))
            except (ValueError, RecursionError) as error:
                what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                msg = (
                    f"input.path: expected one JSON object a line in {file}, got at byte "
                    f"{offset:,}: {what}. Mend or remove that line."
                )
                raise JobError(msg) from error
        offset += len(line) + 1
    return objects


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "a key twice in one object"
        raise ValueError(msg)
    return found


class _Decoder(json.JSONDecoder):
    """Takes objects alone."""

    def decode(self, text: str) -> dict[str, Any]:  # type: ignore[override]
        value = super().decode(text)
        if not isinstance(value, dict):
            msg = f"a {type(value).__name__}"
            raise ValueError(msg)  # noqa: TRY004 - reported like every other bad line
        return value


_DECODER = _Decoder(object_pairs_hook=_unique)


def _array(
    objects: Sequence[dict[str, Any]], name: str, kind: pa.DataType | None, file: AnyPath
) -> pa.Array:
    """One column, of this type or of the one that its values have."""
    values = [entries.get(name) for entries in objects]
    try:
        if kind is not None and is_plain_text(kind):
            values = [_as_text(value) for value in values]
        array = _inferred(values, kind)
        # Never pa.array(values, kind): it cuts 1.5 to 1 without a word. A cast checks.
        return array if kind is None or array.type == kind else array.cast(kind)
    except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError) as error:
        wanted = (
            f"values of type {kind}" if kind else "values of one type, whole numbers in 64 bits"
        )
        msg = (
            f"input.path: expected {wanted} in column {name!r} of {file}, got others "
            f"({type(error).__name__}). Name a type that holds them all by input.types, such as "
            f"{{{name}: string}}, which keeps what is no text as JSON."
        )
        raise JobError(msg) from error


def _inferred(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    try:
        return pa.array(values)
    except UnicodeEncodeError:
        encoded = [None if value is None else _as_bytes(value) for value in values]
        return pa.array(encoded, pa.binary()).view(pa.string())
    except OverflowError:  # beyond int64: only types that say so hold it
        if kind is None or not (pa.types.is_unsigned_integer(kind) or pa.types.is_decimal(kind)):
            raise
        if any(isinstance(value, float) for value in values):
            raise
        return pa.array(values, kind)


def _as_text(value: Any) -> str | None:  # noqa: ANN401 - whatever JSON holds
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _as_bytes(text: str) -> bytes:
    """Give back the bytes that a line had; an escaped lone surrogate becomes its three bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _merged(known: pa.Field, field: pa.Field, file: AnyPath) -> pa.Field:
    """Unify a column's types in two blocks; whole numbers and others make floats, as in one block.

    Reading checks that each number is exact.
    """
    merged = unify_fields(known, field)
    if merged is None and {known.type, field.type} == {pa.int64(), pa.float64()}:
        merged = field.with_type(pa.float64())
    if merged is None:
        msg = (
            f"input.path: expected values of one type in column {field.name!r} of {file}, got "
            f"{known.type} and {field.type}. Name a type that holds them all by input.types."
        )
        raise JobError(msg)
    return merged
