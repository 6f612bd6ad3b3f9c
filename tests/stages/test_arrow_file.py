import pyarrow as pa
import pytest

from headrace.schemas.errors import JobError, ShardError
from headrace.stages.arrow_file import arrow_footer, read_arrow
from headrace.stages.listing import Listed

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5], pa.uint64()),
        "text": ["one", None, "three", "", "five"],
        "kind": pa.array(["a", "b", "a", None, "c"]).dictionary_encode(),
        "pair": [{"x": at} for at in range(5)],
    }
).replace_schema_metadata({"owner": "me"})


def write(file, table=TABLE, **options):
    with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=2)
    return file


def footer_of(file):
    return arrow_footer(Listed(file, file.name, ()))


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_each_record_batch_is_a_row_group(tmp_path, compression):
    file = write(tmp_path / "a.arrow", compression=compression)
    footer = footer_of(file)
    assert footer.schema.equals(TABLE.schema, check_metadata=True)
    assert [group.rows for group in footer.row_groups] == [2, 2, 1]
    assert footer.file.rows == 5
    batches = [read_arrow(file, at, TABLE.column_names) for at in range(3)]
    assert pa.concat_tables(batches).equals(TABLE)


def test_only_the_columns_that_are_asked_for(tmp_path):
    file = write(tmp_path / "a.arrow")
    assert read_arrow(file, 0, ["text", "nowhere"]).to_pydict() == {"text": ["one", None]}
    assert read_arrow(file, 2, []).num_rows == 1


def test_another_content_has_another_digest(tmp_path):
    other = TABLE.set_column(0, "id", pa.array([9, 2, 3, 4, 5], pa.uint64()))
    first, second = write(tmp_path / "a.arrow"), write(tmp_path / "b.arrow", other)
    assert footer_of(first).file.footer_sha256 != footer_of(second).file.footer_sha256


@pytest.mark.parametrize("content", [b"", b"PAR1", b"ARROW1\0\0" + b"\0" * 40 + b"ARROW1"])
def test_what_is_no_arrow_file_is_refused_by_name(tmp_path, content):
    file = tmp_path / "a.arrow"
    file.write_bytes(content)
    with pytest.raises(JobError, match=r"Arrow IPC file, got .*a\.arrow"):
        footer_of(file)


def test_a_stream_is_no_file(tmp_path):
    with pa.ipc.new_stream(tmp_path / "a.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE)
    with pytest.raises(JobError, match="An Arrow stream is none"):
        footer_of(tmp_path / "a.arrow")


def test_offsets_that_lead_outside_are_found_before_they_are_followed(tmp_path):
    offsets = b"\0\0\0\0\xff\xff\xff\x00\3\0\0\0"
    wild = pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(offsets), pa.py_buffer(b"abc")],
    )
    file = write(tmp_path / "a.arrow", pa.table({"text": wild}))
    with pytest.raises(ShardError, match=r"a\.arrow: record batch 0 can't be read"):
        read_arrow(file, 0, ["text"])


def test_a_text_that_is_no_utf8_is_read(tmp_path):
    bad = pa.array([b"\xff"]).view(pa.string())
    file = write(tmp_path / "a.arrow", pa.table({"text": bad}))
    assert read_arrow(file, 0, ["text"])["text"].cast(pa.binary()).to_pylist() == [b"\xff"]
