"""cuDF's tokens against the model's own tokenizer's, on a GPU."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.schemas.job import Job
from headrace.schemas.plan import Slice
from headrace.stages.device_texts import DeviceTexts
from headrace.stages.model_folder import open_model_folder
from headrace.stages.prepare import TextRoad, host_texts
from headrace.stages.read import Source, read_slices
from headrace.stages.spans import Spans
from headrace.stages.text_road import choose_text_road, token_difference
from headrace.stages.wordpiece import WordPiece, WordPieceSpec, read_spec


def compare_tokens(folder: Path, rows: Path, device: str) -> Iterator[tuple[str, bool | None, str]]:
    """Choose the road as a plan would, then compare and time it on all rows."""
    content = {
        "name": "tokens",
        "input": {"path": str(rows), "text": "text"},
        "model": {"path": str(folder), "task": "embed"},
        "output": {"path": "unused"},
    }
    job = Job.model_validate(content)
    model = open_model_folder(job.model)
    with pq.ParquetFile(rows) as file:
        groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
        schema = file.schema_arrow
    source = Source(rows.parent, job.input, schema)
    slices = [Slice(rows.name, at, 0, count) for at, count in enumerate(groups)]
    table = read_slices(source, slices, ["text"])
    texts = table["text"].combine_chunks().cast(pa.large_string())
    choice = choose_text_road(job, model, source, slices, texts, "cuda")
    yield "road", choice.frame == "cudf", f"{choice.frame}, {choice.tokenizer}: {choice.reason}"
    spec = read_spec(model.path)
    assert isinstance(spec, WordPieceSpec)
    host = host_texts(job, model)
    gpu = DeviceTexts(host, source, WordPiece(spec), "cudf", device)
    why = token_difference(gpu, table, slices)
    yield "all rows", why is None, why or f"{table.num_rows:,} rows have the same tokens"
    for name, road in (("cuDF", gpu), ("tokenizers", host)):
        tokens, seconds = _timed(road, table, slices)
        yield f"{name}, read to tokens", None, f"{tokens / seconds:,.0f} tokens/s"


def _timed(road: TextRoad, table: pa.Table, slices: list[Slice]) -> tuple[int, float]:
    best, tokens = float("inf"), 0
    for _ in range(3):
        start = time.perf_counter()
        prepared = road.prepare(table, slices, Spans())
        best = min(best, time.perf_counter() - start)
        tokens = int(prepared.ragged.lengths.sum())
    return tokens, best
