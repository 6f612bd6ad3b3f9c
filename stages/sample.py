"""Step 1f: read a sample of the model's texts, spread over the whole input."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.schemas.errors import JobError, ShardError
from headrace.schemas.plan import Shard, Slice
from headrace.schemas.steps import Step
from headrace.stages.preprocess import model_texts
from headrace.stages.read import Source, read_slices
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
    source: Source,
    slices: Sequence[Slice],
    columns: Sequence[str],
    steps: Sequence[Step] = (),
    prompt: str = "",
) -> pa.LargeStringArray:
    """Make the model's texts of evenly spread rows of these slices, nulls and faults left out.

    Slices that can't be read are left out too: their shard will fail by name, and the others need
    a plan.

    Raises:
        JobError: a preprocessing step can't be used, or fails whatever the row; or the disk does
            not give a file's data.
    """
    names = list(dict.fromkeys(columns))
    # One without rows, so that the steps' names are tried whatever the input holds.
    texts = [_texts(read_slices(source, [], names), columns, steps, prompt)]
    for piece in slices:
        try:
            table = read_slices(source, [piece], names)
        except ShardError:
            continue
        except OSError as error:
            msg = (
                f"input.path: expected to read {source.base / piece.path}, got {in_short(error)}. "
                "Restore the file, or leave it out of input.path."
            )
            raise JobError(msg) from error
        step = max(1, -(-table.num_rows * len(slices) // ROWS))
        # Arrow neither takes nor filters every type of text (26.0: views), and a `take` may put
        # 32-bit offsets together until they overflow; slices always work.
        rows = [table.slice(row, 1) for row in range(0, table.num_rows, step)]
        texts.append(_texts(pa.concat_tables(rows or [table]), columns, steps, prompt))
    return pa.concat_arrays(texts)


def _texts(
    table: pa.Table, columns: Sequence[str], steps: Sequence[Step], prompt: str
) -> pa.LargeStringArray:
    try:
        return pc.drop_null(model_texts(table, columns, steps, prompt).values)
    except ShardError as error:  # before the run it is the job's fault
        raise JobError(str(error)) from error
