import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TABLE = pa.table({"id": ["1", "2"], "text": ["a", "b"]})


def write(folder):
    folder.mkdir()
    pq.write_table(TABLE, folder / "a.parquet")
    (folder / "a.csv").write_text("id,text\n1,a\n2,b\n")
    (folder / "a.jsonl").write_text('{"id": "1", "text": "a"}\n{"id": "2", "text": "b"}\n')
    with pa.ipc.new_file(folder / "a.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE)
    return folder


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
def test_a_folder_is_read_in_the_format_that_the_job_names(tmp_path, footers_of, kind):
    _, footers = footers_of(write(tmp_path / "in"), format=kind)
    assert [footer.listed.relative for footer in footers] == [f"a.{kind}"]
    assert footers[0].schema == TABLE.schema
    assert footers[0].file.rows == 2
    assert len(footers[0].file.footer_sha256) == 64
    assert [group.rows for group in footers[0].row_groups] == [2]
    assert (footers[0].row_groups[0].span is None) == (kind in {"parquet", "arrow"})
