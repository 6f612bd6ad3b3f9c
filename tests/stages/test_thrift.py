import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_support import foreign_files

from headrace.stages.thrift import read_struct


def test_each_type_is_read_as_the_protocol_says():
    data = bytes.fromhex(
        "15 0c"  # field 1, i32: 6
        "16 8f 01"  # field 2, i64: -72
        "11"  # field 3: true
        "12"  # field 4: false
        "18 02 68 69"  # field 5: "hi"
        "19 25 00 01"  # field 6, list of two i32: 0, -1
        "1c 15 02 00"  # field 7: struct {1: 1}
        "13 7f"  # field 8, byte
        "17 00 00 00 00 00 00 f0 3f"  # field 9, double
        "06 c8 01 04"  # field 100 in the long form, i64: 2
        "19 f5 0f" + "02" * 15 +  # field 101, a list of fifteen
        "00"
    )  # fmt: skip
    assert read_struct(data) == {
        1: 6, 2: -72, 3: True, 4: False, 5: b"hi", 6: [0, -1], 7: {1: 1}, 8: 127,
        9: struct.pack("<d", 1.0), 100: 2, 101: [1] * 15,
    }  # fmt: skip


def footer_of(file):
    content = file.read_bytes()
    (length,) = struct.unpack("<I", content[-8:-4])
    return content[-8 - length : -8]


@pytest.mark.parametrize("file", foreign_files(), ids=lambda file: file.stem)
def test_real_footers_say_what_pyarrow_says(file):
    footer, metadata = read_struct(footer_of(file)), pq.read_metadata(file)
    assert footer[3] == metadata.num_rows
    groups = footer[4]
    assert [group[3] for group in groups] == [
        metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)
    ]
    for at, group in enumerate(groups):
        for leaf, chunk in enumerate(group[1]):
            known = metadata.row_group(at).column(leaf)
            assert b".".join(chunk[3][3]).decode() == known.path_in_schema
            assert chunk[3][7] == known.total_compressed_size
            assert chunk[3][9] == known.data_page_offset


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_struct_that_does_not_end_is_refused(tmp_path, cut):
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="does not end"):
        read_struct(footer_of(tmp_path / "a.parquet")[:-cut])


def test_an_unknown_type_is_refused():
    with pytest.raises(ValueError, match="unknown type 14"):
        read_struct(b"\x1e\x00\x00")
