import pyarrow as pa
import pytest

from headrace.schemas.errors import JobError
from headrace.stages.type_names import parse_type


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("string", pa.string()),
        (" int64 ", pa.int64()),
        ("float64", pa.float64()),
        ("double", pa.float64()),
        ("date32", pa.date32()),
        ("timestamp[ms]", pa.timestamp("ms")),
        ("timestamp[us, tz=UTC]", pa.timestamp("us", "UTC")),
        ("timestamp[ns,tz=America/New_York]", pa.timestamp("ns", "America/New_York")),
        ("timestamp[s, tz=+05:30]", pa.timestamp("s", "+05:30")),
        ("decimal128(10, 2)", pa.decimal128(10, 2)),
        ("decimal256(50,-3)", pa.decimal256(50, -3)),
        ("list<string>", pa.list_(pa.string())),
        ("large_list<item: list<int8>>", pa.large_list(pa.list_(pa.int8()))),
        (
            "struct<a: int64, b: list<struct<c: decimal128(5, 2), d: bool>>>",
            pa.struct(
                [
                    ("a", pa.int64()),
                    ("b", pa.list_(pa.struct([("c", pa.decimal128(5, 2)), ("d", pa.bool_())]))),
                ]
            ),
        ),
    ],
)
def test_types_are_read_as_arrow_prints_them(text, kind):
    assert parse_type(text, "a") == kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "text",
        "int",
        "list<>",
        "list<int",
        "struct<a>",
        "decimal128(99, 2)",
        "timestamp[us, tz=]",
    ],
)
def test_what_is_no_type_is_refused_with_examples(text):
    with pytest.raises(JobError, match=r"Arrow type for column 'a' \(such as string, int64"):
        parse_type(text, "a")
