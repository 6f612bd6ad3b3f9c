import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.schemas.errors import JobError
from headrace.schemas.job import InputSpec
from headrace.stages import text_blocks
from headrace.stages.csv_file import csv_footer, read_csv
from headrace.stages.listing import Listed


def read(folder, content, columns=None, **options):
    """Plan a file and read it back, block by block."""
    file = folder / "a.csv"
    file.write_bytes(content)
    spec = InputSpec(path="in", text="text", format="csv", **options)
    footer = csv_footer(Listed(file, "a.csv", ()), spec)
    names = footer.schema.names if columns is None else columns
    wanted = [read_csv(file, group.span, spec, names) for group in footer.row_groups]
    assert [table.num_rows for table in wanted] == [group.rows for group in footer.row_groups]
    empty = pa.schema([footer.schema.field(name) for name in names]).empty_table()
    return pa.concat_tables([empty, *(table.select(names) for table in wanted)])


def test_every_column_is_text_and_keeps_its_zeros(tmp_path):
    table = read(tmp_path, b"id,text\n007,1.50\n")
    assert table.schema == pa.schema([("id", pa.string()), ("text", pa.string())])
    assert table.to_pylist() == [{"id": "007", "text": "1.50"}]


def test_an_empty_field_is_null_and_an_empty_text_is_not(tmp_path):
    table = read(tmp_path, b'id,text\n1,\n2,""\n3,NA\n')
    assert table["text"].to_pylist() == [None, "", "NA"]


def test_types_that_the_job_names(tmp_path):
    types = {"id": "int64", "at": "timestamp[us, tz=UTC]", "price": "decimal128(9, 2)"}
    table = read(
        tmp_path, b"id,at,price\n9007199254740993,2024-01-02T03:04:05Z,1.25\n,,\n", types=types
    )
    assert [str(field.type) for field in table.schema] == [
        "int64",
        "timestamp[us, tz=UTC]",
        "decimal128(9, 2)",
    ]
    assert table["id"].to_pylist() == [9007199254740993, None]
    assert str(table["price"][0]) == "1.25"


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_lines_inside_of_quotes_stay_in_their_row(tmp_path, monkeypatch, block):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", block)
    content = b'id,"te""xt\nx"\r\n1,"a\nb,""c""\n"\r\n2,5" pipe\n3,plain\n\n4,"last\n"'
    table = read(tmp_path, content)
    assert table.column_names == ["id", 'te"xt\nx']
    assert table["id"].to_pylist() == ["1", "2", "3", "4"]
    assert table.column(1).to_pylist() == ['a\nb,"c"\n', '5" pipe', "plain", "last\n"]


def test_a_delimiter_and_names_of_one_s_own(tmp_path):
    options = {"delimiter": "\t", "quote": None, "column_names": ["id", "text"]}
    table = read(tmp_path, b'\xef\xbb\xbf1\ta "b\n2\tc\n', csv=options)
    assert table.to_pylist() == [{"id": "1", "text": 'a "b'}, {"id": "2", "text": "c"}]


def test_bytes_that_are_no_utf8_come_through(tmp_path):
    table = read(tmp_path, b"id,text\n1,\xff\n2,ok\n")
    assert table["text"].cast(pa.binary()).to_pylist() == [b"\xff", b"ok"]


def test_only_the_columns_that_are_asked_for(tmp_path):
    assert read(tmp_path, b"id,text\n1,a\n", ["text"]).to_pylist() == [{"text": "a"}]
    assert read(tmp_path, b"id,text\n1,a\n2,b\n", []).num_columns == 0


def test_a_header_alone_is_a_file_without_rows(tmp_path):
    assert read(tmp_path, b"id,text\n").num_rows == 0
    assert read(tmp_path, b"id,text").column_names == ["id", "text"]


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"", {}, "expected a header line"),
        (b"\n\na,b\n", {}, "expected a header line"),
        (b"a,b\n1\n", {}, "Expected 2 columns, got 1"),
        (b"a,b\n1,2,secret\n", {}, "Expected 2 columns, got 3"),
        (b'a,b\n1,"secret\n', {}, r"closing quote in .*a\.csv for the one at byte 6"),
        (b"a,b\n1,secret\n", {"types": {"b": "int64"}}, "CSV conversion error to int64"),
        (b"a,b\n1,2\n", {"types": {"b": "list<int8>"}}, "not supported"),
        (b"a,a\n1,2\n", {}, "distinct column names"),
        (b"a,\xff\n1,2\n", {}, "UTF-8 names"),
        (b"\x1f\x8bx", {}, "decompress it first"),
    ],
)
def test_what_is_no_csv_is_refused_with_the_file_and_without_its_rows(
    tmp_path, content, options, words
):
    with pytest.raises(JobError, match=words) as caught:
        read(tmp_path, content, **options)
    assert "a.csv" in str(caught.value)
    assert "secret" not in str(caught.value)


FIELDS = st.text(st.sampled_from('ab",\n\r é\0'), max_size=6)


@settings(max_examples=200)
@given(rows=st.lists(st.tuples(FIELDS, FIELDS), max_size=8), block=st.integers(1, 40))
def test_what_python_s_writer_writes_is_read_back_whatever_the_blocks(
    tmp_path_factory, rows, block
):
    sink = io.StringIO(newline="")
    csv.writer(sink, quoting=csv.QUOTE_ALL).writerows([("id", "text"), *rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", block)
        table = read(tmp_path_factory.mktemp("csv"), sink.getvalue().encode())
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
