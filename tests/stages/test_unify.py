import decimal
import math

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.stages.unify import unify_fields, unify_types

FIT = [
    (pa.int8(), pa.int64(), pa.int64()),
    (pa.uint8(), pa.uint32(), pa.uint32()),
    (pa.uint8(), pa.int8(), pa.int16()),
    (pa.uint32(), pa.int8(), pa.int64()),
    (pa.uint16(), pa.int64(), pa.int64()),
    (pa.float16(), pa.float64(), pa.float64()),
    (pa.int8(), pa.float16(), pa.float16()),
    (pa.int16(), pa.float16(), pa.float32()),
    (pa.uint16(), pa.float32(), pa.float32()),
    (pa.int32(), pa.float32(), pa.float64()),
    (pa.decimal128(5, 2), pa.decimal128(10, 0), pa.decimal128(12, 2)),
    (pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal256(48, 10)),
    (pa.decimal32(5, 2), pa.int8(), pa.decimal128(5, 2)),
    (pa.int64(), pa.decimal128(4, 2), pa.decimal128(22, 2)),
    (pa.string(), pa.large_string(), pa.large_string()),
    (pa.string(), pa.string_view(), pa.large_string()),
    (pa.binary(), pa.binary(3), pa.large_binary()),
    (pa.binary(2), pa.binary(3), pa.large_binary()),
    (pa.dictionary(pa.int32(), pa.string()), pa.string(), pa.string()),
    (pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.large_string()),
    (
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int32(), pa.string()),
    ),
    (
        pa.dictionary(pa.int8(), pa.string(), ordered=True),
        pa.dictionary(pa.int8(), pa.string()),
        pa.string(),
    ),
    (pa.date32(), pa.date64(), pa.date64()),
    (pa.time32("s"), pa.time32("ms"), pa.time32("ms")),
    (pa.time32("s"), pa.time64("ns"), pa.time64("ns")),
    (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
    (pa.duration("s"), pa.duration("ms"), pa.duration("ms")),
    (pa.list_(pa.int8()), pa.list_(pa.int16()), pa.list_(pa.int16())),
    (pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.large_list(pa.int8())),
    (pa.list_(pa.int8(), 2), pa.list_(pa.int16(), 2), pa.list_(pa.int16(), 2)),
    (pa.list_(pa.int8(), 2), pa.list_(pa.int8(), 3), pa.list_(pa.int8())),
    (pa.list_(pa.null()), pa.list_(pa.string()), pa.list_(pa.string())),
    (
        pa.struct([("a", pa.int8()), ("b", pa.string())]),
        pa.struct([("c", pa.null()), ("a", pa.int16())]),
        pa.struct([("a", pa.int16()), ("b", pa.string()), ("c", pa.null())]),
    ),
    (
        pa.map_(pa.string(), pa.int8()),
        pa.map_(pa.string(), pa.int64()),
        pa.map_(pa.string(), pa.int64()),
    ),
    (pa.null(), pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8())])),
]

CLASH = [
    (pa.int64(), pa.uint64()),
    (pa.int64(), pa.float64()),
    (pa.uint64(), pa.float64()),
    (pa.int32(), pa.string()),
    (pa.bool_(), pa.int8()),
    (pa.string(), pa.binary()),
    (pa.decimal128(5, 2), pa.float64()),
    (pa.decimal256(76, 0), pa.decimal256(76, 70)),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo")),
    (pa.timestamp("us"), pa.timestamp("ns")),
    (pa.duration("ns"), pa.duration("s")),
    (pa.date32(), pa.timestamp("s")),
    (pa.time32("s"), pa.duration("s")),
    (pa.list_(pa.int8()), pa.int8()),
    (pa.list_(pa.int8()), pa.list_(pa.string())),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.string())])),
    (
        pa.struct([pa.field("a", pa.int8()), pa.field("a", pa.int8())]),
        pa.struct([pa.field("a", pa.int8())]),
    ),
    (pa.map_(pa.string(), pa.int8()), pa.map_(pa.int8(), pa.int8())),
    (pa.dictionary(pa.int8(), pa.string()), pa.int8()),
    (pa.uuid(), pa.binary(16)),
]


@pytest.mark.parametrize(("left", "right", "both"), FIT, ids=str)
def test_types_that_fit(left, right, both):
    assert unify_types(left, right) == both
    swapped = unify_types(right, left)
    assert swapped is not None
    assert {str(kind) for kind in (swapped, both)} == {str(both)} or pa.types.is_struct(both)
    # What the reader does must be possible: pyarrow casts either one.
    for kind in (left, right):
        assert pa.array([], kind).cast(both).type == both


@pytest.mark.parametrize(("left", "right"), CLASH, ids=str)
def test_types_that_would_lose_something(left, right):
    assert unify_types(left, right) is None
    assert unify_types(right, left) is None


def test_a_type_fits_itself_with_all_that_it_is():
    for kind in (pa.timestamp("ns", "Asia/Tokyo"), pa.uuid(), pa.list_view(pa.int8())):
        assert unify_types(kind, kind) == kind


def test_fields_keep_the_first_one_s_metadata_and_become_nullable_where_either_is():
    strict = pa.field("n", pa.int8(), nullable=False, metadata={"unit": "none"})
    merged = unify_fields(strict, pa.field("n", pa.int16(), nullable=False))
    assert (merged.type, merged.nullable, merged.metadata) == (
        pa.int16(),
        False,
        {b"unit": b"none"},
    )
    assert unify_fields(strict, pa.field("n", pa.int16())).nullable
    assert unify_fields(strict, pa.field("n", pa.null())).nullable
    assert unify_fields(strict, pa.field("n", pa.string())) is None


def test_a_field_of_a_struct_that_one_side_lacks_is_nullable():
    full = pa.struct([pa.field("a", pa.int8(), False), pa.field("b", pa.int8(), False)])
    part = pa.struct([pa.field("a", pa.int8(), False)])
    for left, right in ((full, part), (part, full)):
        both = unify_types(left, right)
        assert [both.field(name).nullable for name in ("a", "b")] == [False, True]


INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]


def scalars(kind):
    """Any value of a type."""
    if pa.types.is_integer(kind):
        low = -(2 ** (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
        return st.integers(low, low + 2**kind.bit_width - 1)
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width)
    if pa.types.is_decimal(kind):
        edge = 10**kind.precision - 1
        units = st.integers(-edge, edge)
        context = decimal.Context(prec=80)
        return units.map(lambda n: decimal.Decimal(n).scaleb(-kind.scale, context))
    if pa.types.is_time(kind):
        return st.times().map(lambda time: time.replace(microsecond=0))
    return st.text()


SIMPLE = st.sampled_from(
    [
        *INTEGERS,
        pa.uint64(),
        pa.float16(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(7, 3),
        pa.decimal128(38, 2),
        pa.time32("s"),
        pa.time64("ns"),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
    ]
)


@given(left=SIMPLE, right=SIMPLE, data=st.data())
def test_every_value_comes_through_the_cast_and_back(left, right, data):
    both = unify_types(left, right)
    assume(both is not None)
    values = pa.array(data.draw(st.lists(scalars(left) | st.none(), max_size=5)), left)
    there = values.cast(both)
    back = there.cast(left).to_pylist()
    assert len(back) == len(values)
    for value, expected in zip(back, values.to_pylist(), strict=True):
        nan = isinstance(expected, float) and math.isnan(expected)
        assert math.isnan(value) if nan else value == expected
