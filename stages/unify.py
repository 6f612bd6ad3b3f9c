"""Step 1c, types: the one type that holds the values of two types and loses nothing, if there is.

The rule: every value of either type has an equal value in the result, and keeps it when the result
is cast back. `stages/read.py` casts a file's columns to the dataset's types, checked.
"""

import pyarrow as pa
from pyarrow import types

# Whole numbers up to 2^bits are exact in a float of this type.
EXACT_BITS = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}
DECIMAL_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # of whole numbers of so many bits
MAX_DIGITS_128, MAX_DIGITS = 38, 76
UNITS = ("s", "ms", "us", "ns")
SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def unify_types(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Find the type that both can be cast to without loss, or None where there is none.

    Whole numbers widen, and become floats or decimals where those hold them all; texts and bytes
    become their large forms; dictionaries and their plain values become plain values; times,
    timestamps and durations take the finer unit, but nanoseconds only for times of day, since the
    others have a smaller range there. Lists, structs and maps are unified inside; a struct gets
    the fields of both. Time zones and extension types must be equal.
    """
    if left == right:
        return left
    if types.is_null(left) or types.is_null(right):
        return right if types.is_null(left) else left
    if types.is_dictionary(left) or types.is_dictionary(right):
        return _dictionaries(left, right)
    for rule in (_numbers, _decimals, _texts, _bytes, _times, _lists, _structs, _maps):
        found = rule(left, right)
        if found is not None:
            return found
    return None


def unify_fields(left: pa.Field, right: pa.Field) -> pa.Field | None:
    """Unify two fields of one name: the first gives the metadata, either may make it nullable."""
    kind = unify_types(left.type, right.type)
    if kind is None:
        return None
    null = types.is_null(left.type) or types.is_null(right.type)
    return left.with_type(kind).with_nullable(left.nullable or right.nullable or null)


def _dictionaries(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if types.is_dictionary(left) and types.is_dictionary(right) and left.ordered == right.ordered:
        index = unify_types(left.index_type, right.index_type)
        value = unify_types(left.value_type, right.value_type)
        both = index is not None and value is not None
        return pa.dictionary(index, value, left.ordered) if both else None
    return unify_types(_plain(left), _plain(right))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if types.is_dictionary(kind) else kind


def _numbers(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if types.is_floating(left) and types.is_floating(right):
        return max(left, right, key=lambda kind: kind.bit_width)
    if types.is_integer(left) and types.is_integer(right):
        return _integers(left, right)
    if types.is_integer(left) and types.is_floating(right):
        left, right = right, left
    if types.is_floating(left) and types.is_integer(right):
        bits = right.bit_width - types.is_signed_integer(right)
        wide = (kind for kind, exact in EXACT_BITS.items() if exact >= bits)
        return next((kind for kind in wide if kind.bit_width >= left.bit_width), None)
    return None


def _integers(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    signed = types.is_signed_integer(left), types.is_signed_integer(right)
    if signed[0] == signed[1]:
        return max(left, right, key=lambda kind: kind.bit_width)
    unsigned_bits = right.bit_width if signed[0] else left.bit_width
    signed_bits = left.bit_width if signed[0] else right.bit_width
    return SIGNED.get(max(2 * unsigned_bits, signed_bits))


def _decimals(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if not (types.is_decimal(left) or types.is_decimal(right)):
        return None
    sizes = (_digits(left), _digits(right))
    if sizes[0] is None or sizes[1] is None:
        return None
    scale = max(sizes[0][1], sizes[1][1])
    precision = max(sizes[0][0], sizes[1][0]) + scale
    if precision > MAX_DIGITS:
        return None
    wide = precision > MAX_DIGITS_128
    return pa.decimal256(precision, scale) if wide else pa.decimal128(precision, scale)


def _digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Digits before and after the point; None where the type is no exact number."""
    if types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return (DECIMAL_DIGITS[kind.bit_width], 0) if types.is_integer(kind) else None


def _texts(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    return pa.large_string() if is_plain_text(left) and is_plain_text(right) else None


def is_plain_text(kind: pa.DataType) -> bool:
    """Say whether a type is one of Arrow's plain text types."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _bytes(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    return pa.large_binary() if is_bytes(left) and is_bytes(right) else None


def is_bytes(kind: pa.DataType) -> bool:
    """Say whether a type is one of Arrow's plain types of bytes."""
    plain = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(plain or types.is_fixed_size_binary(kind))


def _times(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if types.is_date(left) and types.is_date(right):
        return pa.date64()
    if types.is_time(left) and types.is_time(right):
        unit = max(left.unit, right.unit, key=UNITS.index)
        return pa.time64(unit) if unit in {"us", "ns"} else pa.time32(unit)
    both = types.is_timestamp(left) and types.is_timestamp(right) and left.tz == right.tz
    if not both and not (types.is_duration(left) and types.is_duration(right)):
        return None
    if "ns" in {left.unit, right.unit}:
        return None
    unit = max(left.unit, right.unit, key=UNITS.index)
    return pa.timestamp(unit, left.tz) if both else pa.duration(unit)


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _lists(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if not (_is_list(left) and _is_list(right)):
        return None
    value = unify_fields(left.value_field, right.value_field)
    if value is None:
        return None
    fixed = types.is_fixed_size_list(left) and types.is_fixed_size_list(right)
    if fixed and left.list_size == right.list_size:
        return pa.list_(value, left.list_size)
    large = types.is_large_list(left) or types.is_large_list(right)
    return pa.large_list(value) if large else pa.list_(value)


def _structs(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if not (types.is_struct(left) and types.is_struct(right)):
        return None
    fields = _merged(list(left), list(right))
    return None if fields is None else pa.struct(fields)


def _merged(left: list[pa.Field], right: list[pa.Field]) -> list[pa.Field] | None:
    """The fields of both, those of the first in front; None where names repeat or types clash."""
    first, second = ({field.name: field for field in fields} for fields in (left, right))
    if len(first) < len(left) or len(second) < len(right):
        return None
    merged = []
    for name in [*first, *(name for name in second if name not in first)]:
        if name in first and name in second:
            field = unify_fields(first[name], second[name])
        else:
            field = (first.get(name) or second[name]).with_nullable(True)
        if field is None:
            return None
        merged.append(field)
    return merged


def _maps(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if not (types.is_map(left) and types.is_map(right)):
        return None
    key = unify_fields(left.key_field, right.key_field)
    item = unify_fields(left.item_field, right.item_field)
    if key is None or item is None:
        return None
    return pa.map_(key, item, keys_sorted=left.keys_sorted and right.keys_sorted)
