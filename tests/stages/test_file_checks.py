import dataclasses
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_support import (
    FOREIGN,
    chunk_bytes,
    encrypt,
    foreign_files,
    rewrite_footer,
    spoil,
    varint,
)

from headrace.schemas.errors import JobError
from headrace.stages.file_checks import find_faults, refuse_unreadable
from headrace.stages.footer import FileFault
from headrace.stages.listing import Listed
from headrace.stages.parquet_file import parquet_footer

ROWS = 250


@pytest.fixture
def file(tmp_path):
    """Three row groups of 100, 100 and 50 rows, two columns."""
    pq.write_table(rows(), tmp_path / "a.parquet", row_group_size=100, compression="snappy")
    return tmp_path / "a.parquet"


def rows():
    return pa.table({"id": range(ROWS), "text": [f"text {at}" for at in range(ROWS)]})


def faults_of(file):
    return parquet_footer(Listed(file, file.name, ())).faults


@pytest.mark.parametrize("source", foreign_files(), ids=lambda file: file.stem)
def test_what_pyarrow_reads_has_no_fault(source):
    assert faults_of(source) == ()


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_codec_that_pyarrow_writes_is_fine(tmp_path, codec, version):
    file = tmp_path / "a.parquet"
    pq.write_table(rows(), file, compression=codec, data_page_version=version, row_group_size=100)
    assert faults_of(file) == ()


def test_a_row_group_without_rows_is_fine(tmp_path):
    schema = pa.schema([("text", pa.string())])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema) as writer:
        writer.write_table(schema.empty_table())
        writer.write_table(pa.table({"text": ["a"]}))
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups == 2
    assert faults_of(tmp_path / "a.parquet") == ()


@pytest.mark.parametrize(("number", "name"), [(3, "LZO"), (8, "codec 8"), (60, "codec 60")])
def test_a_codec_that_pyarrow_lacks_is_named_with_its_chunk(file, number, name):
    rewrite_footer(file, b"text\x15\x02\x16", b"text\x15" + bytes([2 * number]) + b"\x16")
    why = f"it is compressed with {name}, which can't be read"
    assert faults_of(file) == (FileFault(why, 0, "text"),)


def test_a_codec_is_found_in_whatever_row_group_and_nested_column(tmp_path):
    file = tmp_path / "a.parquet"
    nested = pa.table({"pair": [{"a": 1, "b": [2]}] * 9, "text": ["x"] * 9})
    pq.write_table(nested, file, row_group_size=3, compression="snappy")
    first = b"element\x15\x02\x16"
    for _ in range(2):  # hide the first two from the third's replacement
        rewrite_footer(file, first, b"element\x15\x04\x16")
    rewrite_footer(file, first, b"element\x15\x06\x16")
    why = "it is compressed with LZO, which can't be read"
    assert faults_of(file) == (FileFault(why, 2, "pair"),)


def test_an_encoding_that_is_not_known_is_named(file):
    start = b"\x19\x35\x00\x06\x10\x19\x18\x04text"  # PLAIN, RLE, RLE_DICTIONARY
    rewrite_footer(file, start, start.replace(b"\x10", b"\x2a"))
    assert faults_of(file) == (FileFault("it has the encoding 21, which can't be read", 0, "text"),)


def test_bytes_outside_of_the_file_are_named(file):
    begin, end = chunk_bytes(file, 1, "text")
    page = pq.read_metadata(file).row_group(1).column(1).data_page_offset
    footer_at = chunk_bytes(file, 2, "text")[1]
    far = 10**6
    rewrite_footer(file, b"\x26" + varint(page), b"\x26" + varint(far))
    rewrite_footer(file, b"\x26" + varint(begin), b"\x26" + varint(far))
    (fault,) = faults_of(file)
    assert (fault.row_group, fault.column) == (1, "text")
    assert fault.why == (
        f"its bytes 1,000,000 to {far + end - begin:,} are not within the file's data, "
        f"4 to {footer_at:,}"
    )


def test_a_chunk_that_reaches_into_the_footer_is_named(file):
    begin, end = chunk_bytes(file, 2, "text")
    rewrite_footer(file, b"\x16" + varint(end - begin), b"\x16" + varint(end - begin + 1))
    (fault,) = faults_of(file)
    assert (fault.row_group, fault.column) == (2, "text")
    assert "not within the file's data" in fault.why


def test_rows_that_do_not_add_up_are_the_files_fault(file):
    rewrite_footer(file, b"\x16" + varint(ROWS) + b"\x19", b"\x16" + varint(ROWS + 1) + b"\x19")
    why = "its footer says 251 rows, its 3 row groups hold 250"
    assert faults_of(file) == (FileFault(why),)


def test_a_negative_number_of_rows_is_named(file):
    total = varint(ROWS)
    rewrite_footer(file, b"\x16" + varint(50) + b"\x26", b"\x16\x01\x26")  # -1
    rewrite_footer(file, b"\x16" + total + b"\x19", b"\x16" + varint(199) + b"\x19")
    assert FileFault("it says that it holds -1 rows", 2) in faults_of(file)


def test_encrypted_columns_are_named_and_the_others_are_fine(tmp_path):
    encrypt(rows(), tmp_path / "a.parquet", plain_footer=True)
    why = "it is encrypted, and headrace has no keys"
    assert faults_of(tmp_path / "a.parquet") == tuple(FileFault(why, at, "text") for at in range(3))


def test_an_encrypted_footer_is_refused_by_name(tmp_path):
    encrypt(rows(), tmp_path / "secret.parquet", plain_footer=False)
    with pytest.raises(JobError, match=r"secret\.parquet \(its footer is encrypted"):
        faults_of(tmp_path / "secret.parquet")


def test_a_footer_with_a_field_of_another_type_is_none(file):
    numbers_for_row_groups = bytes.fromhex("49 15 02 00")
    with pytest.raises(ValueError, match="another type than Parquet gives it"):
        find_faults(numbers_for_row_groups, pq.read_metadata(file), ["id", "text"], 10**6)


def test_damaged_pages_are_no_matter_of_the_footer(file):
    spoil(file, 1, "text", "zeros")
    assert faults_of(file) == ()


def test_only_the_columns_that_are_read_count(file):
    why = (FileFault("a", 0, "text"), FileFault("b", 1, "id"), FileFault("c", 2))
    footer = parquet_footer(Listed(file, file.name, ()))
    for faults, columns, said in (
        (why, ["id"], "row group 1, column 'id': b.*1 more such fault"),
        (why, [], "row group 2: c"),
        (why[:2], ["text"], "row group 0, column 'text': a"),
        ((FileFault("all of it"),), ["id"], f"{file}: all of it"),
    ):
        with pytest.raises(JobError, match=said):
            refuse_unreadable([dataclasses.replace(footer, faults=faults)], columns)
    refuse_unreadable([dataclasses.replace(footer, faults=why[:2])], ["other"])


def test_the_refusal_names_file_row_group_column_and_what_to_do(tmp_path):
    fine, bad = tmp_path / "fine.parquet", tmp_path / "lzo.parquet"
    shutil.copyfile(FOREIGN / "carquet-lz4-hadoop.parquet", fine)
    pq.write_table(rows(), bad, row_group_size=100)
    for _ in range(2):
        rewrite_footer(bad, b"text\x15\x02\x16", b"text\x15\x06\x16")
    footers = [parquet_footer(Listed(path, path.name, ())) for path in (fine, bad)]
    with pytest.raises(JobError) as caught:
        refuse_unreadable(footers, ["id", "text"])
    assert str(caught.value) == (
        f"input.path: expected Parquet files that can be read, got {bad}, row group 0, column "
        "'text': it is compressed with LZO, which can't be read. Write the file anew, or leave it "
        "out of input.path; or leave the column out of input.text and output.columns. "
        "(1 more such fault in the input.)"
    )
    refuse_unreadable(footers, ["id"])
