"""One column for each type that Parquet can hold for Arrow, with the values that are easily spoilt.

docs/inputs.md lists these names; tests/system/test_types.py holds the two together.
"""

import datetime as dt
import decimal
import struct

import numpy as np
import pyarrow as pa

ROWS = 6
NAN_PAYLOADS = (0x7FC0_0001, 0xFFC1_2345, 0x7F80_0001)  # quiet, negative, signalling
UTC = dt.datetime(2024, 2, 29, 23, 59, 59, 999_999, dt.UTC)


def _of(kind, *values):
    """Make a column of these values, the last place null."""
    return pa.array([*values, *[values[0]] * (ROWS - 1 - len(values)), None], kind)


def _integers():
    for bits in (8, 16, 32, 64):
        top = 2 ** (bits - 1)
        yield f"int{bits}", _of(f"int{bits}", -top, top - 1, 0, -1, 1)
        yield f"uint{bits}", _of(f"uint{bits}", 0, 2 * top - 1, top, 1, 2)
    yield "int64 beyond 2^53", _of("int64", 2**53 + 1, -(2**53) - 1, 2**63 - 1)
    yield "uint64 beyond 2^53", _of("uint64", 2**53 + 1, 2**64 - 1)


def _floats():
    for bits, code in ((16, "e"), (32, "f"), (64, "d")):
        tiny = float(np.finfo(f"float{bits}").smallest_subnormal)
        kind = getattr(pa, f"float{bits}")()
        yield f"float{bits}", _of(kind, 0.1, -0.0, float("inf"), float("-inf"), tiny)
        assert struct.calcsize(code) * 8 == bits
    bits32 = [*NAN_PAYLOADS, 0x7F80_0000, 0x8000_0000]
    payloads = np.array([*bits32, 0], np.uint32).view(np.float32)
    yield "float32 with NaN payloads", pa.array(payloads, mask=np.arange(ROWS) == ROWS - 1)
    wide = np.array([0x7FF8_0000_0000_0001, 0xFFF8_0000_DEAD_BEEF, 0, 1, 2, 3], np.uint64)
    yield "float64 with NaN payloads", pa.array(wide.view(np.float64))
    yield "list of floats with NaN payloads", pa.ListArray.from_arrays(range(ROWS + 1), payloads)


def _decimals():
    exact = decimal.Decimal
    yield "decimal32", _of(pa.decimal32(9, 2), exact("1234567.89"), exact("-0.01"))
    yield "decimal64", _of(pa.decimal64(18, 4), exact("12345678901234.5678"))
    yield "decimal128", _of(pa.decimal128(38, 10), exact("9" * 28 + "." + "9" * 10), exact(0))
    yield "decimal256", _of(pa.decimal256(76, 20), exact("-" + "9" * 56 + "." + "1" * 20))


def _times():
    for unit in ("ms", "us", "ns"):
        yield f"timestamp {unit}", _of(pa.timestamp(unit), 0, -1, 2**40 + 1)
        for zone in ("UTC", "Asia/Tokyo", "+05:30"):
            yield f"timestamp {unit} {zone}", _of(pa.timestamp(unit, zone), 0, -1, 2**40 + 1)
    yield "timestamp us beyond nanoseconds", _of(pa.timestamp("us"), dt.datetime(9999, 12, 31))  # noqa: DTZ001 - without a zone on purpose
    yield "date32", _of(pa.date32(), UTC.date(), dt.date(1, 1, 1))
    yield "time32 ms", _of(pa.time32("ms"), 86_399_999, 0)
    yield "time64 us", _of(pa.time64("us"), 86_399_999_999, 0)
    yield "time64 ns", _of(pa.time64("ns"), 86_399_999_999_999, 1)
    for unit in ("s", "ms", "us", "ns"):
        yield f"duration {unit}", _of(pa.duration(unit), 2**40 + 1, -1)


def _texts():
    odd = ("", "\0", "é", "e\u0301", "\u202eright to left", "👩‍👩‍👧")
    yield "string", _of(pa.string(), *odd[:5])
    yield "large_string", _of(pa.large_string(), *odd[1:])
    yield "string_view", _of(pa.string_view(), *odd[:4], "longer than the twelve bytes inside")
    yield (
        "string that is not UTF-8",
        pa.array([b"\xff\xfe", b"\xed\xa0\x80", b"", b"a\0", b"\xc3", None]).view(pa.string()),
    )
    yield "binary", _of(pa.binary(), b"\0\xff", b"")
    yield "large_binary", _of(pa.large_binary(), b"\0\xff", b"")
    yield "binary_view", _of(pa.binary_view(), b"longer than the twelve bytes", b"")
    yield "fixed_size_binary", _of(pa.binary(3), b"\0\xff\x01", b"abc")
    yield "bool", _of(pa.bool_(), True, False)
    yield "null", pa.nulls(ROWS)


def _dictionaries():
    for index in (pa.int8(), pa.uint16(), pa.int32(), pa.int64()):
        values = pa.array(["b", "a", "unused"])
        places = pa.array([1, 0, 1, 0, 0, None], index)
        yield f"dictionary {index}", pa.DictionaryArray.from_arrays(places, values)
    values = pa.array(["low", "high"])
    places = pa.array([0, 1, 1, 0, 0, None], pa.int8())
    yield "dictionary ordered", pa.DictionaryArray.from_arrays(places, values, ordered=True)
    yield "dictionary binary", _of(pa.binary(), b"\xff", b"").dictionary_encode()


def _nested():
    texts = pa.list_(pa.string())
    yield "list", _of(texts, ["a", None, ""], [], None)
    yield "large_list", _of(pa.large_list(pa.int16()), [1, None], [], None)
    yield "list_view", _of(pa.list_view(pa.int16()), [1, None], [], None)
    yield "fixed_size_list", _of(pa.list_(pa.float32(), 2), [1.5, None], None)
    yield "list of null", _of(pa.list_(pa.null()), [None, None], [])
    inner = pa.struct([("c", texts), ("d", pa.decimal128(5, 2))])
    pair = pa.struct([pa.field("a", pa.int32()), pa.field("b", inner)])
    yield "struct", _of(pair, {"a": None, "b": {"c": [None], "d": None}}, None, {"a": 1, "b": None})
    yield "map", _of(pa.map_(pa.string(), pa.int64()), [("k", 2**53 + 1), ("l", None)], [])
    yield (
        "map of structs",
        _of(pa.map_(pa.int8(), pa.list_(pair)), [(1, [{"a": 1, "b": None}, None])], []),
    )
    kind, value = pa.int64(), 2**53 + 1
    for depth in range(10):
        kind = pa.list_(kind) if depth % 2 else pa.struct([("x", kind)])
        value = [value, None] if depth % 2 else {"x": value}
    yield "nested ten deep", _of(kind, value)


def _extensions():
    ids = [bytes(range(at, at + 16)) for at in range(ROWS - 1)]
    yield (
        "extension uuid",
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([*ids, None], pa.binary(16))),
    )
    texts = _of(pa.string(), '{"a": 1}', "null")
    yield "extension json", pa.ExtensionArray.from_storage(pa.json_(), texts)
    yield "extension bool8", pa.ExtensionArray.from_storage(pa.bool8(), _of(pa.int8(), 1, 0, 2))
    tensor = pa.fixed_shape_tensor(pa.float32(), [2, 1])
    storage = pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float32(), 2))
    yield "extension fixed_shape_tensor", pa.ExtensionArray.from_storage(tensor, storage)
    opaque = pa.opaque(pa.int32(), "point", "nobody")
    yield "extension opaque", pa.ExtensionArray.from_storage(opaque, _of(pa.int32(), 1, 2))


def every_type():
    """All columns by name."""
    makers = (_integers, _floats, _decimals, _times, _texts, _dictionaries, _nested, _extensions)
    return {name: array for make in makers for name, array in make()}
