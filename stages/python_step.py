"""Step 4c: a user's own step on the text columns, whatever a row does: bisect to the guilty ones.

The function gets a Narwhals frame with the text columns and `headrace_row`, and gives one back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.schemas.errors import HeadraceError, JobError, ShardError
from headrace.stages.faults import HOPELESS_ROWS
from headrace.stages.import_function import import_function
from headrace.stages.steps import Frame
from headrace.stages.texts import is_text, valid_text

ROW = "headrace_row"


@dataclass(frozen=True)
class _Part:
    """What the function made of some rows: `headrace_row` and columns of large_string, in order."""

    table: pa.Table
    faults: Mapping[int, str]


def run_python_step(frame: Frame, name: str) -> tuple[Frame, dict[int, str]]:
    """Call the user's function on a frame (N rows of large_string columns).

    Args:
        frame: what the steps before it left.
        name: MODULE:FUNCTION.

    Returns:
        The new frame, null in the guilty rows, and their reasons by row. Where no row is good, or
        there is none, the frame is the old one: its new columns are not known.

    Raises:
        JobError: the function can't be imported, or gives something else than a frame with every
            row and only text.
        ShardError: 64 rows failed and none succeeded.
    """
    function = import_function(name, "preprocess")
    if ROW in frame.columns:
        msg = f"preprocess: {name}: expected no text column named {ROW!r}. Rename it in the input."
        raise JobError(msg)
    rows = len(frame)
    numbered = frame.to_native().append_column(ROW, pa.array(np.arange(rows)))
    parts: list[_Part] = []
    faults: dict[int, str] = {}
    pending = [(0, rows)] if rows else []
    while pending:
        start, end = pending.pop()
        try:
            parts.append(_call(function, name, numbered.slice(start, end - start), start))
        except HeadraceError:
            raise
        except Exception as error:  # noqa: BLE001 - any row may raise anything; its name is reported
            if end - start > 1:
                middle = (start + end) // 2
                pending += [(middle, end), (start, middle)]
                continue
            faults[start] = f"{type(error).__name__} in preprocess"
            if not parts:
                _give_up_if_hopeless(name, faults)
    for part in parts:
        faults |= part.faults
    return (_whole(name, parts, faults, rows) if parts else frame), faults


def _call(function: Callable[..., Any], name: str, table: pa.Table, start: int) -> _Part:
    """Call the function on consecutive rows from `start`, and check what it gives."""
    returned = function(nw.from_native(table, eager_only=True))
    if isinstance(returned, nw.DataFrame):
        returned = returned.to_arrow()
    if isinstance(returned, pa.RecordBatch):
        returned = pa.Table.from_batches([returned])
    if not isinstance(returned, pa.Table):
        got = f"{type(returned).__module__}.{type(returned).__name__}"
        _refuse(name, f"expected a Narwhals DataFrame or an Arrow table, got {got}")
    _check_columns(name, returned)
    numbers = _row_numbers(name, returned, table.num_rows)
    order = np.argsort(numbers, kind="stable")
    expected = np.arange(start, start + table.num_rows)
    if not np.array_equal(numbers[order], expected):
        _refuse(name, f"a step must keep every row: expected each {ROW} once, got other numbers")
    columns = {ROW: pa.array(expected)}
    faults: dict[int, str] = {}
    for column in (other for other in returned.column_names if other != ROW):
        texts = valid_text(returned.column(column))
        columns[column] = texts.values.take(pa.array(order))
        faults |= {int(numbers[row]): reason for row, reason in texts.faults.items()}
    return _Part(pa.table(columns), faults)


def _check_columns(name: str, table: pa.Table) -> None:
    others = [column for column in table.column_names if column != ROW]
    if table.column_names.count(ROW) != 1:
        _refuse(name, f"a step must keep the column {ROW}, got only {table.column_names}")
    if len(set(others)) < len(others) or not others:
        _refuse(name, f"expected text columns with distinct names beside {ROW}, got {others}")
    for column in others:
        kind = table.schema.field(column).type
        # A column that no row has a text in may come without a type.
        if not (is_text(kind) or pa.types.is_null(kind)):
            _refuse(name, f"expected only text columns beside {ROW}, got {column!r} of type {kind}")


def _row_numbers(name: str, table: pa.Table, rows: int) -> npt.NDArray[np.int64]:
    column = table.column(ROW)
    if not pa.types.is_integer(column.type) or column.null_count:
        _refuse(name, f"expected {ROW} as it was given (int64), got type {column.type} or nulls")
    if table.num_rows != rows:
        _refuse(name, f"a step must keep every row: expected {rows} rows, got {table.num_rows}")
    numbers: npt.NDArray[np.int64] = column.cast(pa.int64(), safe=False).to_numpy()
    return numbers


def _whole(name: str, parts: list[_Part], faults: Mapping[int, str], rows: int) -> Frame:
    """Put the parts together in the rows' order, with nulls for the rows that have none."""
    names = parts[0].table.column_names
    for part in parts[1:]:
        if part.table.column_names != names:
            _refuse(name, f"expected the same columns each time, got {part.table.column_names}")
    table = pa.concat_tables(part.table for part in parts)
    if table.num_rows < rows:
        missing = np.setdiff1d(np.array(list(faults)), table.column(ROW).to_numpy())
        nulls = {column: pa.nulls(missing.size, pa.large_string()) for column in names}
        table = pa.concat_tables([table, pa.table(nulls | {ROW: pa.array(missing)})])
        table = table.take(pa.array(np.argsort(table.column(ROW).to_numpy())))
    return nw.from_native(table.drop_columns([ROW]), eager_only=True)


def _refuse(name: str, what: str) -> NoReturn:
    msg = f"preprocess: {name}: {what}"
    raise JobError(msg)


def _give_up_if_hopeless(name: str, faults: Mapping[int, str]) -> None:
    if len(faults) >= HOPELESS_ROWS:
        msg = (
            f"preprocess: {name}: expected the step to take some row, and the first {len(faults)} "
            f"all failed with {sorted(set(faults.values()))}: the fault is not in the rows. "
            "Try the step on one row by hand"
        )
        raise ShardError(msg)
