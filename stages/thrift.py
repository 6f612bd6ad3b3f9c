"""Reads Thrift's compact protocol, in which a Parquet footer is written.

pyarrow ends the whole process when it is asked for the codec of a column chunk that has one it does
not know, or for anything of an encrypted one. So a footer that may have such a chunk is read here.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from typing import Any

STOP = 0
BOOLEANS = {1: True, 2: False}
BYTE, INTEGERS, DOUBLE, BINARY, LISTS, STRUCT = 3, (4, 5, 6), 7, 8, (9, 10), 12
DOUBLE_BYTES = 8
LONG_LIST = 15


def read_struct(data: bytes) -> dict[int, Any]:
    """Read the struct that begins here: field number to integer, bytes, list, struct or boolean.

    Raises:
        ValueError: these bytes are no such struct.
    """
    try:
        return _struct(data, 0)[0]
    except (IndexError, RecursionError) as error:
        msg = "its Thrift struct does not end"
        raise ValueError(msg) from error


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    field = 0
    while (head := data[at]) != STOP:
        at += 1
        kind = head & 15
        if head >> 4:
            field += head >> 4
        else:
            field, at = _integer(data, at)
        if kind in BOOLEANS:  # a field's boolean is its type
            found[field] = BOOLEANS[kind]
        else:
            found[field], at = _value(kind, data, at)
    return found, at + 1


def _value(kind: int, data: bytes, at: int) -> tuple[Any, int]:
    if kind in INTEGERS:
        return _integer(data, at)
    if kind == BINARY:
        length, at = _unsigned(data, at)
        return data[at : at + length], at + length
    if kind in LISTS:
        return _list(data, at)
    if kind == STRUCT:
        return _struct(data, at)
    if kind == DOUBLE:
        return data[at : at + DOUBLE_BYTES], at + DOUBLE_BYTES
    if kind == BYTE or kind in BOOLEANS:  # in a list, a boolean is a byte
        return data[at], at + 1
    msg = f"its Thrift struct has a field of the unknown type {kind}"
    raise ValueError(msg)


def _list(data: bytes, at: int) -> tuple[list[Any], int]:
    length, kind = data[at] >> 4, data[at] & 15
    at += 1
    if length == LONG_LIST:
        length, at = _unsigned(data, at)
    values = []
    for _ in range(length):
        value, at = _value(kind, data, at)
        values.append(value)
    return values, at


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 128:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1
