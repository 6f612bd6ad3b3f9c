import hashlib

import pytest

from headrace.schemas.errors import JobError
from headrace.stages import text_blocks
from headrace.stages.text_blocks import TextFile, read_span


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 8)


def lines(data):
    return data.rfind(b"\n") + 1


@pytest.mark.parametrize("content", [b"", b"a\n", b"a", b"one\ntwo\nthree\nfour", b"\n" * 30])
def test_blocks_are_whole_lines_and_together_the_file(tmp_path, content):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    file = TextFile(path)
    blocks = list(file.blocks(lines))
    assert b"".join(block.data for block in blocks) == content
    assert all(block.data.endswith(b"\n") == block.ended for block in blocks)
    assert [read_span(path, block.span) for block in blocks] == [block.data for block in blocks]
    assert file.size_bytes == len(content)
    assert file.sha256 == hashlib.sha256(content).hexdigest()


def test_a_record_longer_than_a_block_stays_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n" + b"x" * 100 + b"\nb\n")
    assert b"x" * 100 + b"\n" in [block.data[-101:] for block in TextFile(path).blocks(lines)]


def test_a_byte_order_mark_is_left_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfa\nb\n")
    (block,) = TextFile(path).blocks(lines)
    assert (block.span, block.data) == ((3, 4), b"a\nb\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x1f\x8b\x08rest", "gzip; decompress it first"),
        (b"PAR1rest", "a Parquet file"),
        (b"ARROW1\0\0", "input.format: arrow"),
        (b"\xff\xfea\0", "UTF-16"),
    ],
)
def test_what_is_no_plain_text_is_refused_by_name(tmp_path, content, words):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(JobError, match=words):
        list(TextFile(path).blocks(lines))
