"""Step 8: the result columns of a shard, built on the host from one copy."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.schemas import layout
from headrace.schemas.plan import ResultFacts
from headrace.stages.forward import BatchResult

NULL_INPUT = "null input"


class Results:
    """Takes batches' results in any order and gives Arrow columns in the shard's order.

    `values` (N, W or k) float32, `classes` (N, k) int64 for a classifier, and `valid` (N,) bool:
    which rows have a result.
    """

    def __init__(self, rows: int, facts: ResultFacts) -> None:
        """Make room for `rows` results; what is never placed stays zero, and null in Arrow."""
        self._facts = facts
        self.task = facts.task
        width = facts.width if facts.task == "embed" else facts.top_k
        self.values = np.zeros((rows, width), np.float32)
        self.classes = np.zeros((rows, width), np.int64)
        self.valid = np.zeros(rows, np.bool_)

    def place(self, rows: npt.NDArray[np.int64], result: BatchResult) -> None:
        """Put results (R, W) at their rows (R,)."""
        self.values[rows] = result.values
        if result.classes is not None:
            self.classes[rows] = result.classes
        self.valid[rows] = True

    def columns(self) -> dict[str, pa.Array]:
        """The result columns by name: embed `embedding`; classify `label`, `score`, maybe `top`."""
        missing = ~self.valid
        if self._facts.task == "embed":
            flat = pa.array(self.values.reshape(-1))
            kind = pa.list_(pa.float32(), self._facts.width)
            return {
                "embedding": pa.FixedSizeListArray.from_arrays(
                    flat, type=kind, mask=pa.array(missing)
                )
            }
        names = pa.array(self._facts.labels, pa.string())
        columns: dict[str, pa.Array] = {
            "label": names.take(pa.array(self.classes[:, 0], mask=missing)),
            "score": pa.array(self.values[:, 0], mask=missing),
        }
        if self._facts.top_k > 1:
            columns["top"] = self._top(names, missing)
        return columns

    def _top(self, names: pa.Array, missing: npt.NDArray[np.bool_]) -> pa.Array:
        pairs = pa.StructArray.from_arrays(
            [names.take(pa.array(self.classes.reshape(-1))), pa.array(self.values.reshape(-1))],
            names=["label", "score"],
        )
        offsets = np.arange(missing.size + 1, dtype=np.int32) * self._facts.top_k
        return pa.ListArray.from_arrays(pa.array(offsets), pairs, mask=pa.array(missing))


def reasons_column(rows: int, nulls: npt.NDArray[np.int64], faults: Mapping[int, str]) -> pa.Array:
    """Say for each row without a result why: "null input", or exception class and stage."""
    reasons = np.full(rows, None, object)
    reasons[nulls] = NULL_INPUT
    for row, reason in faults.items():
        reasons[row] = reason
    return pa.array(reasons, pa.string())


def output_table(
    passed: pa.Table, results: Mapping[str, pa.Array], reasons: pa.Array, dropped: list[int]
) -> pa.Table:
    """Put the passed-through columns, the results and the reasons side by side.

    Args:
        passed: the input's columns, untouched.
        results: from `Results.columns`.
        reasons: from `reasons_column`.
        dropped: rows to leave out.
    """
    table = passed
    for name, column in (*results.items(), (layout.ERROR_COLUMN, reasons)):
        table = table.append_column(pa.field(name, column.type), column)
    if not dropped:
        return table
    # Arrow does not filter every type (26.0: string views); slices always work.
    edges = [-1, *sorted(dropped), table.num_rows]
    return pa.concat_tables(
        table.slice(before + 1, after - before - 1) for before, after in pairwise(edges)
    )
