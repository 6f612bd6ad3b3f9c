import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.schemas.errors import JobError
from headrace.schemas.job import InputSpec
from headrace.stages.footers import read_footers
from headrace.stages.listing import Listed


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
