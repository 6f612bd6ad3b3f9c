"""Step 1b for text files: cut a file into blocks of whole records, each read by itself later."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.schemas.errors import JobError
from headrace.schemas.plan import InputFile, Span
from headrace.stages.footer import Footer, RowGroup
from headrace.stages.listing import Listed
from headrace.stages.places import AnyPath, open_bytes

BLOCK_BYTES = 8 * 1024 * 1024
MAGIC = {
    b"\x1f\x8b": "compressed by gzip; decompress it first",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; decompress it first",
    b"BZh": "compressed by bzip2; decompress it first",
    b"PAR1": "a Parquet file; leave out input.format",
    b"ARROW1": "an Arrow file; set input.format: arrow",
    b"\xff\xfe": "in UTF-16; convert it to UTF-8",
    b"\xfe\xff": "in UTF-16; convert it to UTF-8",
}
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Cut = Callable[[bytes], int]


@dataclass(frozen=True)
class Block:
    """Whole records of a text file. `ended`: the last one ends like a record, not with the file."""

    span: Span
    data: bytes
    ended: bool


@dataclass
class TextFile:
    """A text file that is read once from start to end. Size and digest hold after that."""

    path: AnyPath
    size_bytes: int = 0
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        """Of what was read so far, in hex."""
        return self._digest.hexdigest()

    def blocks(self, cut: Cut) -> Iterator[Block]:
        """Yield blocks of about 8 MiB, longer where a single record is; no byte order mark.

        Args:
            cut: says how many bytes of some text are whole records; 0 where none is.

        Raises:
            JobError: the file is no plain text.
        """
        rest, offset = bytearray(), 0
        with open_bytes(self.path) as source:
            while chunk := source.read(BLOCK_BYTES):
                first = self.size_bytes == 0
                self._note(chunk)
                if first and chunk.startswith(BYTE_ORDER_MARK):
                    chunk, offset = chunk.removeprefix(BYTE_ORDER_MARK), len(BYTE_ORDER_MARK)
                rest += chunk
                whole = cut(bytes(rest))
                if whole:
                    yield Block((offset, whole), bytes(rest[:whole]), ended=True)
                    offset += whole
                    del rest[:whole]
        if rest:
            yield Block((offset, len(rest)), bytes(rest), ended=False)

    def footer(self, entry: Listed, groups: Sequence[RowGroup], schema: pa.Schema) -> Footer:
        """Say what the plan needs, once the file was read."""
        return Footer(
            listed=entry,
            file=InputFile(
                path=entry.relative,
                size_bytes=self.size_bytes,
                footer_sha256=self.sha256,
                rows=sum(group.rows for group in groups),
            ),
            schema=schema,
            row_groups=tuple(groups),
        )

    def _note(self, chunk: bytes) -> None:
        if self.size_bytes == 0:
            refuse_no_text(chunk, self.path)
        self._digest.update(chunk)
        self.size_bytes += len(chunk)


def refuse_no_text(head: bytes, path: AnyPath) -> None:
    """Look at a file's first bytes.

    Raises:
        JobError: they are those of another format.
    """
    for magic, what in MAGIC.items():
        if head.startswith(magic):
            msg = f"input.path: expected plain UTF-8 text, got {path}, which is {what}"
            raise JobError(msg)


def read_span(file: AnyPath, span: Span) -> bytes:
    """Read one block again."""
    offset, size_bytes = span
    with open_bytes(file) as source:
        source.seek(offset)
        return source.read(size_bytes)
