import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.schemas.errors import JobError
from headrace.schemas.job import InputSpec
from headrace.stages import text_blocks
from headrace.stages.jsonl_file import jsonl_footer, read_jsonl
from headrace.stages.listing import Listed


def plan(folder, content, **options):
    file = folder / "a.jsonl"
    file.write_bytes(content)
    spec = InputSpec(path="in", text="text", format="jsonl", **options)
    return file, jsonl_footer(Listed(file, "a.jsonl", ()), spec)


def read(folder, content, **options):
    """Plan a file and read it back, block by block."""
    file, footer = plan(folder, content, **options)
    tables = [read_jsonl(file, group.span, footer.schema) for group in footer.row_groups]
    assert [table.num_rows for table in tables] == [group.rows for group in footer.row_groups]
    return pa.concat_tables([footer.schema.empty_table(), *tables])


def test_types_are_those_of_the_values_and_texts_stay_texts(tmp_path):
    content = (
        b'{"id": 9007199254740993, "at": "2024-01-01", "x": 1, "tags": ["a", null]}\n\n'
        b'{"id": null, "x": 0.5, "more": {"deep": [true]}}\r\n'
    )
    table = read(tmp_path, content)
    assert {name: str(table.schema.field(name).type) for name in table.column_names} == {
        "id": "int64",
        "at": "string",
        "x": "double",
        "tags": "list<item: string>",
        "more": "struct<deep: list<item: bool>>",
    }
    assert table.to_pylist() == [
        {"id": 9007199254740993, "at": "2024-01-01", "x": 1.0, "tags": ["a", None], "more": None},
        {"id": None, "at": None, "x": 0.5, "tags": None, "more": {"deep": [True]}},
    ]


def test_blocks_of_other_types_are_unified(tmp_path, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 4)
    content = b'{"x": 1}\n{"x": 0.5, "s": {"a": 1}}\n{"s": {"b": "t"}, "x": null}\n{}\n'
    table = read(tmp_path, content)
    assert table.num_rows == 4
    assert table["x"].to_pylist() == [1.0, 0.5, None, None]
    assert table["s"].to_pylist() == [None, {"a": 1, "b": None}, {"a": None, "b": "t"}, None]


def test_types_that_the_job_names(tmp_path):
    types = {
        "id": "uint64",
        "at": "timestamp[us]",
        "price": "decimal128(9, 2)",
        "mixed": "string",
        "never": "int8",
    }
    content = (
        b'{"id": 18446744073709551615, "at": "2024-01-02T03:04:05", "price": "1.25", "mixed": 1}\n'
        b'{"id": 1, "mixed": {"a": "\xc3\xa9"}}\n{"mixed": "as it is"}\n'
    )
    table = read(tmp_path, content, types=types)
    assert table["id"].to_pylist() == [18446744073709551615, 1, None]
    assert str(table["at"][0]) == "2024-01-02 03:04:05"
    assert str(table["price"][0]) == "1.25"
    assert table["mixed"].to_pylist() == ["1", '{"a": "é"}', "as it is"]
    assert table.schema.field("never").type == pa.int8()


def test_bytes_that_are_no_utf8_and_lone_surrogates_come_through(tmp_path):
    table = read(tmp_path, b'{"text": "a\xff"}\n{"text": "b\\ud800"}\n{"text": null}\n')
    assert table.schema.field("text").type == pa.string()
    assert table["text"].cast(pa.binary()).to_pylist() == [b"a\xff", b"b\xed\xa0\x80", None]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1}\n{"a": secret}\n', "at byte 9: Expecting value"),
        (b'{"a": 1\n', "one JSON object a line"),
        (b"null\n", "at byte 0: a NoneType"),
        (b'[{"a": 1}]\n', "at byte 0: a list"),
        (b'{"a": 1, "a": "secret"}\n', "a key twice"),
        (b'{"a": 1}\n{"a": "secret"}\n', "values of one type"),
        (b'{"a": 12345678901234567890123}\n', "numbers in 64 bits"),
        (b'{"a": 9007199254740993}\n{"a": 0.5}\n', "values of one type"),
        (b'{"a": ' + b"[" * 100_000 + b"}\n", "one JSON object a line"),
        (b'{"a": ' + b"9" * 5000 + b"}\n", "one JSON object a line"),
    ],
)
def test_what_is_no_json_lines_is_refused_with_the_file_and_without_its_rows(
    tmp_path, content, words
):
    with pytest.raises(JobError, match=words) as caught:
        plan(tmp_path, content)
    assert "a.jsonl" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_cast_never_cuts_a_number(tmp_path):
    with pytest.raises(JobError, match="values of type int64"):
        plan(tmp_path, b'{"a": 1.5}\n', types={"a": "int64"})


@pytest.mark.parametrize("later", ["null", '"x"'])
def test_blocks_without_a_common_type_are_refused(tmp_path, monkeypatch, later):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 4)
    content = f'{{"a": 1}}\n{{"a": {later}}}\n'.encode()
    if later == "null":
        assert plan(tmp_path, content)[1].schema.field("a").type == pa.int64()
        return
    with pytest.raises(JobError, match=r"column 'a' of .*int64 and string"):
        plan(tmp_path, content)


VALUES = st.none() | st.text(max_size=5)


@settings(max_examples=100)
@given(
    rows=st.lists(st.fixed_dictionaries({"a": VALUES, "b": st.lists(VALUES, max_size=2)})),
    block=st.integers(1, 60),
)
def test_what_python_s_writer_writes_is_read_back_whatever_the_blocks(
    tmp_path_factory, rows, block
):
    content = "".join(json.dumps(row, ensure_ascii=bool(block % 2)) + "\n" for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", block)
        table = read(tmp_path_factory.mktemp("jsonl"), content.encode())
    assert table.to_pylist() == rows
