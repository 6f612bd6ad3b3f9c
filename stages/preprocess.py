"""Step 4: make the model's texts of the input's columns, by the job's steps."""

from collections.abc import Sequence

import narwhals as nw
import pyarrow as pa

from headrace.schemas.errors import JobError
from headrace.schemas.steps import Python, Step
from headrace.stages.python_step import run_python_step
from headrace.stages.steps import TEXT, Frame, apply_step, joined, prefixed
from headrace.stages.texts import Texts, blanked, valid_text


def model_texts(
    table: pa.Table, columns: Sequence[str], steps: Sequence[Step] = (), prompt: str = ""
) -> Texts:
    """Validate the text columns as UTF-8, apply the steps, join what is left by a space.

    A row with a bad byte in one of its columns is null to the steps, and stays a fault whatever
    they make of it.

    Args:
        table: holds the columns, of any of Arrow's text types, dictionaries of text included.
        columns: one or more; without steps, a row is null only if all are.
        steps: the job's, in order.
        prompt: goes before each text that is left.

    Raises:
        JobError: a step does not fit the columns, or is no step (see python_step.py).
        ShardError: a python step fails, whatever the row.
    """
    parts = {name: valid_text(table.column(name)) for name in columns}
    faults = {row: reason for part in parts.values() for row, reason in part.faults.items()}
    frame: Frame = nw.from_native(
        pa.table({name: blanked(part.values, faults) for name, part in parts.items()}),
        eager_only=True,
    )
    for step in steps:
        if isinstance(step, Python):
            frame, guilty = run_python_step(frame, step.python)
            faults = guilty | faults
            if len(faults) == len(frame):  # no row is left to work on
                break
        else:
            frame = apply_step(frame, step)
    text = one_text(frame, frame.columns if steps else columns, prompt)
    return Texts(blanked(text.get_column(TEXT).to_arrow(), faults), faults)


def one_text(frame: Frame, columns: Sequence[str], prompt: str) -> Frame:
    """Join the columns that are left into one, `text`, with the prompt before it."""
    text = joined(frame, columns, " ")
    return prefixed(text, prompt) if prompt else text


def check_steps(columns: Sequence[str], steps: Sequence[Step]) -> None:
    """Try the steps before the first python step on a frame without rows.

    Raises:
        JobError: a step names a column that it would not get.
    """
    if steps and len(set(columns)) < len(columns):
        msg = f"input.text: expected each column once where there are steps, got {list(columns)}"
        raise JobError(msg)
    empty = {name: pa.array([], pa.large_string()) for name in columns}
    frame: Frame = nw.from_native(pa.table(empty), eager_only=True)
    for step in steps:
        if isinstance(step, Python):  # its columns are not known
            return
        frame = apply_step(frame, step)
