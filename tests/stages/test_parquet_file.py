import errno
import shutil

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_support import FOREIGN, encrypt, rewrite_footer, spoil, varint

from headrace.schemas.errors import JobError, ShardError
from headrace.schemas.job import InputSpec
from headrace.schemas.plan import Slice
from headrace.stages.footers import read_footers
from headrace.stages.listing import Listed
from headrace.stages.parquet_file import parquet_stored_bytes, read_parquet


def write(file, values, **options):
    pq.write_table(pa.table({"text": values}), file, **options)
    return file


def read(*files):
    spec = InputSpec(path="in", text="text")
    return read_footers([Listed(file, file.name, ()) for file in files], spec)


def test_a_footer_tells_size_rows_schema_and_row_groups(tmp_path):
    file = write(tmp_path / "a.parquet", ["one"] * 25, row_group_size=10)
    (footer,) = read(file)
    assert (footer.file.path, footer.file.rows) == ("a.parquet", 25)
    assert footer.file.size_bytes == file.stat().st_size
    assert footer.schema == pa.schema([("text", pa.string())])
    assert [group.rows for group in footer.row_groups] == [10, 10, 5]
    metadata = pq.read_metadata(file)
    assert [group.size_bytes for group in footer.row_groups] == [
        metadata.row_group(at).total_byte_size for at in range(3)
    ]


def test_many_footers_come_in_their_order(tmp_path):
    files = [write(tmp_path / f"{at}.parquet", ["x"] * (at + 1)) for at in range(40)]
    assert [footer.file.rows for footer in read(*files)] == list(range(1, 41))


def test_a_file_without_rows_has_a_footer(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), file)
    (footer,) = read(file)
    assert footer.file.rows == 0
    assert sum(group.rows for group in footer.row_groups) == 0


def test_a_copy_has_the_same_digest_and_another_content_has_not(tmp_path):
    one = write(tmp_path / "one.parquet", ["aa", "bb"])
    copy = tmp_path / "copy.parquet"
    shutil.copyfile(one, copy)
    longer = write(tmp_path / "longer.parquet", ["aa", "bb", "cc"])
    other = write(tmp_path / "other.parquet", ["aa", "zz"])  # as long, but other values
    digests = [footer.file.footer_sha256 for footer in read(one, copy, longer, other)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_types_are_those_that_pyarrow_reads(tmp_path):
    """UUIDs and JSON are Parquet's own types; pyarrow gives them by its extension types."""
    file = tmp_path / "a.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT uuid() AS id, '{{}}'::JSON AS doc) TO '{file}'")
    (footer,) = read(file)
    assert footer.schema.equals(pq.read_table(file).schema, check_metadata=True)
    assert [str(kind) for kind in footer.schema.types] == [
        "extension<arrow.uuid>",
        "extension<arrow.json>",
    ]


def _truncated(file):
    file.write_bytes(file.read_bytes()[:-5])


def _empty(file):
    file.write_bytes(b"")


def _text(file):
    file.write_text("id,text\n1,one\n" * 9)


def _footer_spoilt(file):
    content = bytearray(file.read_bytes())
    content[-60:-8] = b"\xff" * 52
    file.write_bytes(content)


def _gone(file):
    file.unlink()


@pytest.mark.parametrize("damage", [_truncated, _empty, _text, _footer_spoilt, _gone])
def test_a_damaged_file_is_named(tmp_path, damage):
    fine = write(tmp_path / "fine.parquet", ["one"])
    bad = write(tmp_path / "bad.parquet", ["one"] * 100)
    damage(bad)
    with pytest.raises(JobError, match=r"expected a Parquet file, got .*bad\.parquet"):
        read(fine, bad)


@pytest.fixture
def damaged(tmp_path):
    """Three row groups of ten rows; `text` has page checksums."""
    table = pa.table({"id": range(30), "text": [f"text {at}" for at in range(30)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10, write_page_checksum=True)
    return tmp_path / "a.parquet", table


def read_group(file, group, columns=("id", "text"), start=0, rows=10):
    piece = Slice(file.name, group, start, rows)
    return pa.concat_tables(read_parquet(file, piece, columns))


@pytest.mark.parametrize(("start", "rows"), [(0, 10), (2, 5)])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("flip", "CRC checksum verification failed"),
        ("zeros", "Deserializing page header failed"),
        ("header", "Deserializing page header failed"),
    ],
)
def test_a_damaged_page_names_file_and_row_group(damaged, how, said, start, rows):
    file, table = damaged
    spoil(file, 1, "text", how)
    with pytest.raises(ShardError) as caught:
        read_group(file, 1, start=start, rows=rows)
    message = str(caught.value)
    assert message.startswith(f"{file}, row group 1: it can't be read (")
    assert said in message
    assert message.endswith("Restore the file, and run the same command again")
    assert message.isprintable()
    assert read_group(file, 1, ["id"])["id"].to_pylist() == list(range(10, 20))
    assert read_group(file, 0).equals(table.slice(0, 10))
    assert read_group(file, 2).equals(table.slice(20))


@pytest.mark.parametrize(("start", "rows"), [(0, 10), (8, 2)])
def test_fewer_rows_than_planned_are_no_answer(damaged, start, rows):
    """The footer is patched: a row group of 10 rows says that it has 12."""
    file, _ = damaged
    rewrite_footer(file, b"\x16" + varint(10) + b"\x26", b"\x16" + varint(12) + b"\x26")
    with pytest.raises(ShardError, match=rf"row group 0: .*{rows + 2} rows.* {rows}") as caught:
        read_group(file, 0, start=start, rows=rows + 2)
    assert str(file) in str(caught.value)


def test_a_row_group_that_is_gone_is_named(damaged):
    file, table = damaged
    pq.write_table(table, file)
    with pytest.raises(ShardError, match=r"a\.parquet, row group 2: it can't be read"):
        read_group(file, 2)


def test_a_file_that_lost_its_footer_is_named(damaged):
    file, _ = damaged
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ShardError, match=r"a\.parquet, row group 0: it can't be read"):
        read_group(file, 0)


def test_what_the_disk_does_stays_an_error_of_the_disk(damaged):
    """Such an error may pass, so the shard is tried again."""
    file, _ = damaged
    file.unlink()
    with pytest.raises(FileNotFoundError) as caught:
        read_group(file, 0)
    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == str(file)


def test_encrypted_columns_fail_and_the_others_are_read(tmp_path):
    file = tmp_path / "a.parquet"
    encrypt(pa.table({"id": [1, 2], "text": ["a", "b"]}), file, plain_footer=True)
    assert read_group(file, 0, ["id"], rows=2)["id"].to_pylist() == [1, 2]
    with pytest.raises(ShardError, match=r"row group 0: .*decrypt"):
        read_group(file, 0, ["text"], rows=2)


def test_levels_that_parquet_forbids_fail_by_name():
    """A file that an early parquet-cpp wrote: a row begins in the middle of a list."""
    file = FOREIGN / "parquet-cpp-levels-malformed.parquet"
    with pytest.raises(ShardError, match=r"row group 0: .*repetition level"):
        read_group(file, 0, ["boolean_field", "int64_field"], rows=500)


def test_a_struct_without_a_field_has_no_bytes(tmp_path):
    """The footer of a real file, its last column made a group without children."""
    file = tmp_path / "a.parquet"
    shutil.copyfile(FOREIGN / "parquetjs.parquet", file)
    leaf, group = b"\x15\x02\x25\x04\x18\x05marks", b"\x35\x00\x18\x05marks\x15\x00"
    rewrite_footer(file, leaf, group)
    assert str(pq.read_schema(file).field("marks").type) == "struct<>"
    piece = Slice("a.parquet", 0, 0, 5)
    assert parquet_stored_bytes(file, piece, ["marks"]) == 0
    assert parquet_stored_bytes(file, piece, ["flag"]) > 0
