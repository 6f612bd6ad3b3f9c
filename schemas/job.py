"""The job: what a user writes in a YAML file, validated once and frozen.

Every section refuses a key that it does not know. Defaults are the values below.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from headrace.schemas.steps import Step

Precision = Literal["fp32", "bf16", "fp16"]
Pooling = Literal["mean", "cls", "last", "max"]
Task = Literal["embed", "classify"]
InputFormat = Literal["parquet", "csv", "jsonl", "arrow"]
VectorDtype = Literal["float32", "float16", "int8", "binary"]


def _yaml_null(value: object) -> object:
    """Read an unquoted `mode: null`, which YAML gives as None, as the word that was meant."""
    return "null" if value is None else value


StorageOptions = dict[str, JsonValue]
# They may hold credentials: no plan, report, fingerprint or printed job has them.
STORAGE_OPTIONS: StorageOptions = Field(default_factory=dict, exclude=True, repr=False)


class Section(BaseModel):
    """A frozen part of the job that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CsvSpec(Section):
    """How CSV is written. `quote: null`: no field is quoted."""

    delimiter: str = Field(default=",", pattern=r"^[ -~\t]$")
    quote: str | None = Field(default='"', pattern=r"^[ -~]$")
    column_names: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="null: the first line has them"
    )


class InputSpec(Section):
    """What is read. `path`: a file, a folder (hive partitions kept as text), or a glob.

    `types`: columns' Arrow types, for the formats that don't say; null values stay null.
    """

    path: str = Field(min_length=1)
    format: InputFormat = "parquet"
    types: dict[str, str] = Field(default_factory=dict)
    csv: CsvSpec = CsvSpec()
    binary_as_text: bool = Field(default=False, description="read bytes as UTF-8 text")
    text: str | Annotated[tuple[str, ...], Field(min_length=1)]
    storage_options: StorageOptions = STORAGE_OPTIONS
    limit: int | None = Field(default=None, ge=1, description="only the first N rows")

    @model_validator(mode="after")
    def _options_fit_the_format(self) -> "InputSpec":
        if self.types and self.format not in {"csv", "jsonl"}:
            msg = f"input.types are for csv and jsonl; format {self.format!r} has types of its own"
            raise ValueError(msg)
        if self.csv != CsvSpec() and self.format != "csv":
            msg = f"input.csv is for format: csv, got format: {self.format}"
            raise ValueError(msg)
        if self.csv.quote == self.csv.delimiter:
            msg = f"input.csv.quote and .delimiter must differ, got {self.csv.quote!r} for both"
            raise ValueError(msg)
        return self

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that the model reads, joined by a space when there are several."""
        return (self.text,) if isinstance(self.text, str) else self.text


class ModelSpec(Section):
    """The model. `path`: a folder, or `package:NAME/SUBFOLDER` that a Python package ships."""

    path: str = Field(min_length=1)
    sha256: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", description="what its digest must be"
    )
    task: Task
    pooling: Pooling | None = Field(default=None, description="null: the model folder's, or mean")
    normalize: bool = True
    truncate_dim: int | None = Field(
        default=None, ge=1, description="the first values of a vector; null: all"
    )
    max_length: int | None = Field(
        default=None, ge=1, description="tokens a row; null: the model's"
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    road: Literal["auto", "bucketed", "packed"] = Field(
        default="auto", description="packed: BERT's family without padding; auto: bucketed"
    )
    top_k: int | None = Field(
        default=None, ge=1, description="null: 1, or all classes of a multi-label model"
    )
    threshold: float | None = Field(
        default=None, ge=0.0, le=1.0, description="of a multi-label model; null: 0.5"
    )
    prompt: str | None = Field(default=None, description="a name; '': none; null: the folder's")
    factory: str | None = Field(default=None, pattern=r"^[\w.]+:[\w.]+$")
    options: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _options_fit_together(self) -> "ModelSpec":
        if self.options and self.factory is None:
            msg = "model.options are given to model.factory, and there is none"
            raise ValueError(msg)
        if self.road == "packed" and self.factory is not None:
            msg = "model.road: packed runs weights of BERT's family; model.factory gives a module"
            raise ValueError(msg)
        if self.top_k is not None and self.top_k > 1 and self.task != "classify":
            msg = "model.top_k is for task: classify"
            raise ValueError(msg)
        if self.threshold is not None and self.task != "classify":
            msg = "model.threshold is for task: classify"
            raise ValueError(msg)
        if self.truncate_dim is not None and self.task != "embed":
            msg = "model.truncate_dim is for task: embed"
            raise ValueError(msg)
        if self.prompt and self.task != "embed":
            msg = "model.prompt is for task: embed"
            raise ValueError(msg)
        return self


class ShardSpec(Section):
    """How the input is cut. A shard never holds more than these, unless one row does."""

    target_rows: int = Field(default=50_000, ge=1)
    target_bytes: int = Field(default=256 * 1024 * 1024, ge=1, description="as Parquet counts them")


class ComputeSpec(Section):
    """Where and how it is computed. Nothing here can change a result beyond the tolerance."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    workers: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    max_attempts: int = Field(default=3, ge=1)
    stall_timeout_s: float = Field(default=900.0, gt=0, description="what one batch may take")
    worker_timeout_s: float = Field(default=300.0, gt=0, description="to be without any worker")
    batch_tokens: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    max_shapes: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = "auto"


class ErrorSpec(Section):
    """What becomes of rows that can't be computed. `max_ratio` is judged from 1,000 rows on."""

    mode: Annotated[Literal["null", "drop"], BeforeValidator(_yaml_null)] = "null"
    max_ratio: float = Field(default=0.05, ge=0.0, le=1.0)
    keep_input: bool = Field(default=False, description="list bad rows with their texts")


class PriceSpec(Section):
    """What one host costs, divided among its workers."""

    per_hour: float = Field(ge=0.0, allow_inf_nan=False)
    currency: str = Field(default="USD", min_length=1)
    source: str = "job"
    date: str | None = Field(default=None, description="when the price held, YYYY-MM-DD")


class OutputSpec(Section):
    """What is written.

    `columns`: the input columns to keep; null keeps every one. `prefix`: put before the name of
    each column that headrace adds. `dtype`: of a vector's values; int8 has a scale a row beside
    it, binary one bit a value.
    """

    path: str = Field(min_length=1)
    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] = "zstd"
    columns: tuple[str, ...] | None = None
    prefix: str = ""
    storage_options: StorageOptions = STORAGE_OPTIONS
    dtype: VectorDtype = "float32"


class Job(Section):
    """One batch job: a model over a dataset, into one folder of Parquet files."""

    name: str = Field(min_length=1, pattern=r"^[\w.-]+$")
    input: InputSpec
    model: ModelSpec
    preprocess: tuple[Step, ...] = ()
    shards: ShardSpec = ShardSpec()
    compute: ComputeSpec = ComputeSpec()
    errors: ErrorSpec = ErrorSpec()
    price: PriceSpec | None = None
    output: OutputSpec
