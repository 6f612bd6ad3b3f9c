"""Steps 4 and 5: make ragged tokens of a shard's rows. Here on the host, in Arrow.

The other way, with text and tokens on the GPU, is in device_texts.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tokenizers import Tokenizer

from headrace.schemas.job import Job
from headrace.schemas.plan import Slice
from headrace.stages.model_folder import ModelFolder
from headrace.stages.preprocess import model_texts
from headrace.stages.ragged import Ragged, ragged_of
from headrace.stages.spans import Spans
from headrace.stages.texts import Texts
from headrace.stages.tokenize import load_tokenizer, tokenize

HOST_TOKENIZER = "tokenizers"


@dataclass(frozen=True)
class Prepared:
    """A shard's tokens, and what became of its rows on the way."""

    ragged: Ragged
    faults: dict[int, str]  # row -> reason
    tokenized: dict[str, int]  # rows with a text, by what tokenized them
    device_faults: dict[str, int] = field(default_factory=dict)  # what the GPU left to the host

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The rows to compute."""
        return np.flatnonzero(self.ragged.present)

    @property
    def nulls(self) -> npt.NDArray[np.int64]:
        """The rows whose input is null."""
        rows = np.flatnonzero(~self.ragged.present)
        return rows[~np.isin(rows, list(self.faults))]


class TextRoad(Protocol):
    """How a worker comes from a shard's rows to tokens."""

    @property
    def reads(self) -> bool:
        """Whether it reads the model's columns itself."""

    def prepare(self, table: pa.Table, slices: Sequence[Slice], spans: Spans) -> Prepared:
        """Prepare a shard's rows.

        Args:
            table: the shard's rows as Arrow, with the model's columns unless it reads them itself.
            slices: where the rows lie in the input.
            spans: takes the time.

        Raises:
            JobError: a preprocessing step does not fit.
            ShardError: a step fails whatever the row, or a file can't be read.
        """


@dataclass(frozen=True)
class HostTexts:
    """Preprocesses in Arrow, and tokenizes with `tokenizers`."""

    job: Job
    tokenizer: Tokenizer
    lowercase: bool
    prompt: str  # before each text; empty for none
    max_length: int
    reads: bool = False

    def prepare(self, table: pa.Table, slices: Sequence[Slice], spans: Spans) -> Prepared:  # noqa: ARG002 - as TextRoad says
        """See `TextRoad`."""
        with spans("preprocess_s"):
            texts = self.texts(table)
        with spans("tokenize_s"):
            tokens = tokenize(texts.values, self.tokenizer, lowercase=self.lowercase)
        present = texts.values.is_valid().to_numpy(zero_copy_only=False).copy()
        present[list(tokens.faults)] = False
        return Prepared(
            ragged_of(tokens, present, self.max_length),
            texts.faults | tokens.faults,
            {HOST_TOKENIZER: int(present.sum())},
        )

    def texts(self, table: pa.Table) -> Texts:
        """Make the model's texts of the job's text columns."""
        return model_texts(table, self.job.input.text_columns, self.job.preprocess, self.prompt)


def host_texts(job: Job, model: ModelFolder) -> HostTexts:
    """Load what the host road needs of a model."""
    return HostTexts(job, load_tokenizer(model), model.lowercase, model.prompt, model.max_length)
