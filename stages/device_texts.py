"""Steps 3 to 5 on the GPU: a shard's rows to ragged tokens that never visit the host.

Rows that need Unicode, or that the GPU's tokenizer is not known to tokenize as the model's own, go
to the host one by one and join the others as tokens. Built-in preprocessing steps look at one row
at a time, so the rows of a shard may take different roads. What the GPU fails at, the host does;
the report counts it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch

from headrace.kernels.plain_rows.launch import plain_rows
from headrace.schemas.plan import FrameRoad, Slice
from headrace.schemas.steps import Python
from headrace.stages.cudf_frame import (
    DEVICE_FAULTS,
    CudfFrame,
    CudfSeries,
    bounded,
    cuts,
    frame_of,
    read_frame,
    rows_where,
    text_buffers,
)
from headrace.stages.gpu_setup import PIECE_BYTES
from headrace.stages.handover import moved, own_stream
from headrace.stages.places import is_local
from headrace.stages.prepare import HOST_TOKENIZER, HostTexts, Prepared
from headrace.stages.preprocess import one_text
from headrace.stages.ragged import RowTokens, join
from headrace.stages.read import Source, read_slices
from headrace.stages.spans import Spans
from headrace.stages.steps import TEXT, Frame, apply_step
from headrace.stages.sticky import end_if_sticky
from headrace.stages.texts import Texts
from headrace.stages.tokenize import tokenize
from headrace.stages.wordpiece import WordPiece

DEVICE_TOKENIZER = "cudf"
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DeviceTexts:
    """Tokenizes on the GPU; with `frame: cudf` reads and preprocesses there, too."""

    host: HostTexts
    source: Source
    wordpiece: WordPiece
    frame: FrameRoad
    device: str = "cuda"
    piece_bytes: int = PIECE_BYTES

    @property
    def reads(self) -> bool:
        """See `TextRoad`."""
        return self.frame == "cudf"

    def prepare(self, table: pa.Table, slices: Sequence[Slice], spans: Spans) -> Prepared:
        """See `TextRoad`."""
        try:
            return self._prepare_there(table, slices, spans)
        except DEVICE_FAULTS as error:
            end_if_sticky(error)
            fault = type(error).__name__
        if self.reads:
            with spans("read_s"):
                table = read_slices(self.source, slices, self.host.job.input.text_columns)
        whole = self.host.prepare(table, slices, spans)
        return replace(whole, device_faults={f"{fault} in shard": 1})

    def _prepare_there(self, table: pa.Table, slices: Sequence[Slice], spans: Spans) -> Prepared:
        shard = _Shard(self, spans)
        with own_stream(self.device):
            if self.reads:
                shard.take_slices(slices)
            else:
                shard.take_table(table)
            with spans("tokenize_s"):
                specials = self.wordpiece.spec.specials
                ragged = join(shard.parts, table.num_rows, self.host.max_length, specials)
        return Prepared(ragged, shard.faults, dict(shard.tokenized), dict(shard.device_faults))


@dataclass
class _Shard:
    """One shard on its way, and what is known of its rows so far."""

    road: DeviceTexts
    spans: Spans
    parts: list[RowTokens] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    tokenized: Counter[str] = field(default_factory=Counter)
    device_faults: Counter[str] = field(default_factory=Counter)

    def take_slices(self, slices: Sequence[Slice]) -> None:
        """Take rows that cuDF reads; what it can't read, the host takes, or says what is wrong."""
        ends = np.cumsum([piece.rows for piece in slices])
        waiting: list[Rows] = [np.empty(0, np.int64)]  # the rows of the frames that are to come

        def frames() -> Iterator[CudfFrame]:
            for piece, end in zip(slices, ends, strict=True):
                rows = np.arange(end - piece.rows, end)
                frame = self._read(piece)
                if frame is None:
                    columns = self.road.host.job.input.text_columns
                    self._take_arrow(rows, read_slices(self.road.source, [piece], columns))
                else:
                    waiting.append(rows)
                    yield frame

        for frame in bounded(frames(), self.road.piece_bytes):
            coming = np.concatenate(waiting)
            rows, waiting[:] = coming[: len(frame)], [coming[len(frame) :]]
            if not self._done_on_device("preprocess", lambda: self._take_frame(rows, frame)):  # noqa: B023 - called at once
                self._take_arrow(rows, frame.to_arrow())

    def take_table(self, table: pa.Table) -> None:
        """Take rows that the host has read: it preprocesses them, too."""
        texts = self._host_texts(np.arange(table.num_rows), table)
        for first, some in _pieces(texts.values, self.road.piece_bytes):
            rows = np.arange(first, first + len(some))
            if not self._done_on_device("tokenize", lambda: self._take_texts(rows, some)):  # noqa: B023 - called at once
                self._tokenize_on_host(rows, some)

    def _read(self, piece: Slice) -> CudfFrame | None:
        """Read a slice with cuDF, or say that it can't."""
        base, columns = self.road.source.base, self.road.host.job.input.text_columns
        assert is_local(base)  # stages/text_road.py leaves a store's files to the host
        file = base / piece.path
        read: list[CudfFrame] = []
        with self.spans("read_s"):
            self._done_on_device("read", lambda: read.append(read_frame(file, piece, columns)))
        return read[0] if read else None

    def _done_on_device(self, stage: str, work: Callable[[], None]) -> bool:
        """Do some work, or undo it and count why it can't be done there."""
        before = len(self.parts), dict(self.faults), Counter(self.tokenized)
        try:
            work()
        except DEVICE_FAULTS as error:
            end_if_sticky(error)
            del self.parts[before[0] :]
            self.faults, self.tokenized = before[1:]
            self.device_faults[f"{type(error).__name__} in {stage}"] += 1
            return False
        return True

    def _take_frame(self, rows: Rows, frame: CudfFrame) -> None:
        """Take rows (R,) whose columns are on the device."""
        with self.spans("preprocess_s"):
            plain = np.ones(rows.size, np.bool_)
            for name in frame.columns:
                plain &= plain_rows(*text_buffers(frame[name])).cpu().numpy()
            here, there = np.flatnonzero(plain), np.flatnonzero(~plain)
            text = self._text(rows_where(frame, here)) if here.size else None
        if text is not None:
            self._tokenize_on_device(rows[here], text)
        if there.size:
            self._take_arrow(rows[there], frame.take(there).to_arrow())

    def _text(self, frame: CudfFrame) -> CudfSeries:
        """Apply the job's steps to plain rows."""
        host = self.road.host
        narwhal: Frame = nw.from_native(frame, eager_only=True)
        for step in host.job.preprocess:
            assert not isinstance(step, Python)  # stages/text_road.py sends those to the host
            narwhal = apply_step(narwhal, step)
        columns = narwhal.columns if host.job.preprocess else host.job.input.text_columns
        return one_text(narwhal, columns, host.prompt).get_column(TEXT).to_native()

    def _take_arrow(self, rows: Rows, table: pa.Table) -> None:
        """Take rows (R,) all the way on the host."""
        self._tokenize_on_host(rows, self._host_texts(rows, table).values)

    def _host_texts(self, rows: Rows, table: pa.Table) -> Texts:
        host = self.road.host
        with self.spans("preprocess_s"):
            texts = host.texts(table)
        self.faults |= {int(rows[row]): reason for row, reason in texts.faults.items()}
        return texts

    def _take_texts(self, rows: Rows, texts: pa.LargeStringArray) -> None:
        """Take finished texts (R,) that are on the host."""
        with self.spans("tokenize_s"):
            text = frame_of(pa.table({TEXT: texts}))[TEXT]
        self._tokenize_on_device(rows, text)

    def _tokenize_on_device(self, rows: Rows, text: CudfSeries) -> None:
        """Tokenize finished texts (R,) that are on the device."""
        wordpiece = self.road.wordpiece
        with self.spans("tokenize_s"):
            low = text.str.lower() if self.road.host.lowercase else text
            plain = plain_rows(*text_buffers(low), wordpiece.spec.longest_word).cpu().numpy()
            plain &= ~wordpiece.spelled_out(low)
            valid = text.notna().to_numpy()
            here, there = np.flatnonzero(valid & plain), np.flatnonzero(valid & ~plain)
            if here.size:
                ids, counts = wordpiece.tokenize(rows_where(low, here))
                self.parts.append(RowTokens(rows[here], ids, counts))
                self.tokenized[DEVICE_TOKENIZER] += here.size
        if there.size:
            others = text.take(there).to_arrow().cast(pa.large_string())
            self._tokenize_on_host(rows[there], others)

    def _tokenize_on_host(self, rows: Rows, texts: pa.LargeStringArray) -> None:
        """Tokenize finished texts (R,) with the model's own tokenizer, and copy the tokens."""
        host = self.road.host
        with self.spans("tokenize_s"):
            tokens = tokenize(texts, host.tokenizer, lowercase=host.lowercase, bare=True)
            self.faults |= {int(rows[row]): reason for row, reason in tokens.faults.items()}
            good = texts.is_valid().to_numpy(zero_copy_only=False).copy()
            good[list(tokens.faults)] = False
            ids = moved(torch.from_numpy(tokens.ids), self.road.device)
            self.parts.append(RowTokens(rows[good], ids, tokens.lengths[good]))
            self.tokenized[HOST_TOKENIZER] += int(good.sum())


def _pieces(
    texts: pa.LargeStringArray, most_bytes: int
) -> Iterator[tuple[int, pa.LargeStringArray]]:
    """Cut texts to pieces of about `most_bytes` at most, each with its first row's number."""
    size_n = pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
    for start, stop in cuts(size_n, most_bytes):
        yield start, texts.slice(start, stop - start)
