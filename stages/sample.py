"""Step 1f: read a sample of the model's texts, spread over the whole input."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.schemas.errors import JobError
from headrace.schemas.plan import Shard, Slice
from headrace.stages.preprocess import model_texts
from headrace.stages.read import read_slices
from headrace.stages.wording import in_short

SLICES = 8
ROWS = 4_096


def sample_slices(shards: Sequence[Shard]) -> list[Slice]:
    """Choose at most 8 slices, evenly spread over the input."""
    pieces = [piece for shard in shards for piece in shard.slices]
    chosen = (
        np.unique(np.linspace(0, len(pieces) - 1, SLICES).round().astype(int)) if pieces else ()
    )
    return [pieces[at] for at in chosen]


def sample_texts(
    base: Path, slices: Sequence[Slice], schema: pa.Schema, columns: Sequence[str]
) -> pa.LargeStringArray:
    """Read evenly spread texts of these slices, nulls and faulty rows left out.

    Raises:
        JobError: a file's data can't be read; the message names it.
    """
    texts = [pa.array([], pa.large_string())]
    for piece in slices:
        try:
            table = read_slices(base, [piece], schema, list(dict.fromkeys(columns)))
        except (pa.ArrowException, OSError) as error:
            msg = (
                f"input.path: expected to read {base / piece.path}, got {in_short(error)}. "
                "Restore the file, or leave it out of input.path."
            )
            raise JobError(msg) from error
        step = max(1, -(-table.num_rows * len(slices) // ROWS))
        values = model_texts(table, columns).values
        texts.append(pc.drop_null(values.take(pa.array(range(0, len(values), step)))))
    return pa.concat_arrays(texts)
