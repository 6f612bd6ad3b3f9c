"""The plan: decided once, written once, and the same for every worker and every later attempt."""

import base64
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, JsonValue

from headrace.schemas.columns import AddedColumns, added_columns
from headrace.schemas.job import Job, Pooling, Precision, Task, VectorDtype
from headrace.schemas.layout import part_name

Activation = Literal["softmax", "sigmoid"]
FrameRoad = Literal["arrow", "cudf"]
BatchLayout = Literal["bucketed", "packed"]

VALUE_BYTES: dict[VectorDtype, int] = {"float32": 4, "float16": 2, "int8": 1, "binary": 1}
SCALE_BYTES = 4  # a float32
CLASS_BYTES = 12  # a float32 probability and an int64 class


class Value(BaseModel):
    """A frozen value that is written as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class InputFile(Value):
    """One file of the input, by the path below the input's base folder."""

    path: str
    size_bytes: int
    footer_sha256: str
    rows: int


Span = tuple[int, int]  # offset and size in bytes


@dataclass(frozen=True)
class Slice:
    """A run of rows inside one row group of one file.

    A text file's row group is a block of whole records, and `span` is where it lies.
    """

    path: str
    row_group: int
    row_start: int
    rows: int
    span: Span | None = None


@dataclass(frozen=True)
class Shard:
    """The unit of work and of commit: some slices in the input's order, one output file."""

    index: int
    id: str  # the first 8 hex digits of a digest of fingerprints and slices
    slices: tuple[Slice, ...]

    @property
    def rows(self) -> int:
        """How many input rows the shard holds."""
        return sum(piece.rows for piece in self.slices)

    @property
    def part(self) -> str:
        """The name of the shard's data file."""
        return part_name(self.index, self.id)


class Shape(Value):
    """A static batch length and the row counts that it may have, largest first."""

    length: int
    rows: tuple[int, ...]


class BatchSize(Value):
    """What a static batch of padded rows takes."""

    rows: int
    length: int

    @property
    def tokens(self) -> int:
        """Tokens that the device computes, padding included."""
        return self.rows * self.length


class PackSize(Value):
    """What a static pack takes: tokens, those of no row included, and how many rows at most."""

    tokens: int
    rows: int


class ShapeGrid(Value):
    """Every static batch that a run may use: of padded rows by shapes, or packs.

    Shapes come shortest first, and the last one takes the longest row; packs come largest first,
    and the first one takes the longest row. One of the two is empty.
    """

    shapes: tuple[Shape, ...] = ()
    packs: tuple[PackSize, ...] = ()
    batch_tokens: int
    sample_rows: int
    sample_tokens: int
    padding_share: float  # of the sample, batched as one shard of the run's size

    @property
    def sizes(self) -> tuple[BatchSize | PackSize, ...]:
        """Each size that a static batch may have, that of most tokens first."""
        sizes: list[BatchSize | PackSize] = [
            BatchSize(rows=rows, length=shape.length)
            for shape in self.shapes
            for rows in shape.rows
        ]
        return tuple(sorted([*sizes, *self.packs], key=lambda size: size.tokens, reverse=True))


class Road(Value):
    """How the forward pass runs, resolved once on a worker."""

    device: Literal["cpu", "cuda"]
    precision: Precision
    layout: BatchLayout = "bucketed"
    execution: Literal["eager", "graphs"] = "eager"
    frame: FrameRoad = "arrow"  # what reads and preprocesses the texts
    tokenizer: Literal["tokenizers", "cudf"] = "tokenizers"
    text_reason: str = ""  # why the texts take this road; empty on a CPU, which has no other
    reason: str
    tokens_per_s: float | None  # padded tokens in the trial; None where none was needed


class ResultFacts(Value):
    """What the model gives: the width of an embedding, or the names of the classes.

    The fields between `width` and `max_length` are for one of the tasks only.
    """

    task: Task
    width: int  # values of a vector, or how many classes
    dtype: VectorDtype = "float32"  # of a vector's values; scores are float32
    truncate_dim: int | None = None  # how many of the pooled values are kept; None: all
    labels: tuple[str, ...] = ()
    activation: Activation = "softmax"
    threshold: float | None = None  # of a multi-label classifier; None: one label a row
    top_k: int = 1  # how many classes are considered
    max_length: int
    pooling: Pooling
    normalize: bool

    @property
    def stored_width(self) -> int:
        """Numbers of a vector as it is written: binary has eight values a byte."""
        return -(-self.width // 8) if self.dtype == "binary" else self.width

    @property
    def row_bytes(self) -> int:
        """What a row's result takes in memory while its shard is computed."""
        if self.task == "embed":
            scale = SCALE_BYTES if self.dtype == "int8" else 0
            return self.stored_width * VALUE_BYTES[self.dtype] + scale
        return self.top_k * CLASS_BYTES


class MemoryFit(Value):
    """What a worker's GPU has to hold for a run, against what it can."""

    weights_bytes: int
    activations_bytes: int  # measured with the largest batch
    pool_bytes: int  # cuDF's share at most; 0 where it is not used
    texts_bytes: int  # what readers take beside it while they tokenize; 0 likewise
    headroom_bytes: int  # for fragments, and for what libraries take
    available_bytes: int  # free before the model was loaded

    @property
    def needed_bytes(self) -> int:
        """All that is to be held."""
        parts = (self.weights_bytes, self.activations_bytes, self.pool_bytes, self.texts_bytes)
        return sum(parts) + self.headroom_bytes

    @property
    def fits(self) -> bool:
        """Whether there is room for it."""
        return self.needed_bytes <= self.available_bytes


@dataclass(frozen=True)
class Resolved:
    """What the plan needs from a worker (stages/resolve.py)."""

    grid: ShapeGrid
    road: Road
    facts: ResultFacts
    weights_bytes: int
    memory: MemoryFit | None = None  # None on a CPU


class PlanHeader(Value):
    """`_headrace/plan.json`."""

    format: Literal[1] = 1
    created: str  # UTC, ISO 8601
    job: Job
    job_fields: dict[str, JsonValue]  # what the job fingerprint covers, by dotted name
    job_fingerprint: str
    input_fingerprint: str
    files: tuple[InputFile, ...]
    arrow_schema: str  # base64 of the dataset's one Arrow schema, as IPC
    rows: int
    shards: int
    slices_sha256: str
    grid: ShapeGrid
    road: Road
    result: ResultFacts
    versions: dict[str, str]

    @cached_property
    def dataset_schema(self) -> pa.Schema:
        """The dataset's one Arrow schema, hive folders' columns included."""
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.arrow_schema)))

    @property
    def added_columns(self) -> AddedColumns:
        """The names of the columns that a part has beside those of the input."""
        return added_columns(self.job, multi_label=self.result.threshold is not None)


@dataclass(frozen=True)
class Plan:
    """A run's header and all its shards."""

    header: PlanHeader
    shards: tuple[Shard, ...]
