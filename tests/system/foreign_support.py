"""Where the files of other writers are, and how a good file is spoilt in one place."""

import struct
from pathlib import Path

import pyarrow.parquet as pq

FOREIGN = Path(__file__).parents[1] / "data" / "foreign"
TAIL_BYTES = 8
PARTITIONS = FOREIGN / "spark-3.5-partitions"
# Levels that Parquet forbids; times that come out as others (tests/stages/test_int96.py).
UNREADABLE = {"parquet-cpp-levels-malformed.parquet", "spark-3.5-int96-years.parquet"}


def foreign_files():
    """Every single file that some other writer wrote and pyarrow reads as it is meant."""
    return [file for file in sorted(FOREIGN.glob("*.parquet")) if file.name not in UNREADABLE]


def has_text(file):
    """Whether a file has a column `text` that is text, and an `id`."""
    names = {field.name: str(field.type) for field in pq.read_schema(file)}
    return names.get("text") == "string" and "id" in names


def rewrite_footer(file, old, new):
    """Replace bytes of a file's footer where they first stand; the footer may change its length."""
    content = file.read_bytes()
    (length,) = struct.unpack("<I", content[-TAIL_BYTES:-4])
    body, footer = content[: -TAIL_BYTES - length], content[-TAIL_BYTES - length : -TAIL_BYTES]
    assert old in footer
    footer = footer.replace(old, new, 1)
    file.write_bytes(body + footer + struct.pack("<I", len(footer)) + content[-4:])


def varint(value):
    """A number as the footer writes it."""
    zigzag, out = value << 1, b""
    while zigzag > 0x7F:
        out += bytes([zigzag & 0x7F | 0x80])
        zigzag >>= 7
    return out + bytes([zigzag])


def chunk_bytes(file, row_group, column):
    """Where in the file a column chunk begins and ends."""
    group = pq.read_metadata(file).row_group(row_group)
    chunk = next(
        group.column(at)
        for at in range(group.num_columns)
        if group.column(at).path_in_schema == column
    )
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return start, start + chunk.total_compressed_size


def spoil(file, row_group, column, how):
    """Damage a column chunk's bytes and leave the footer whole.

    `zeros` overwrites it, `header` spoils its first page's header, `flip` one bit of its last
    page's values.
    """
    start, end = chunk_bytes(file, row_group, column)
    content = bytearray(file.read_bytes())
    if how == "zeros":
        content[start:end] = bytes(end - start)
    elif how == "header":
        content[start : start + 4] = b"\xff" * 4
    else:
        assert how == "flip"
        content[end - 3] ^= 1
    file.write_bytes(content)


def encrypt(table, file, *, plain_footer, columns=("text",)):
    """Write a file whose columns are encrypted, each row group of 100 rows."""
    import base64

    import pyarrow.parquet.encryption as pe

    class InMemoryKms(pe.KmsClient):
        """Wraps keys by nothing: who can unwrap them is not what is tested."""

        def __init__(self, _):
            super().__init__()

        def wrap_key(self, key_bytes, _):
            return base64.b64encode(key_bytes)

        def unwrap_key(self, wrapped_key, _):
            return base64.b64decode(wrapped_key)

    keys = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"key": list(columns)}, plaintext_footer=plain_footer
    )
    factory = pe.CryptoFactory(InMemoryKms)
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), keys)
    with pq.ParquetWriter(file, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table, row_group_size=100)
