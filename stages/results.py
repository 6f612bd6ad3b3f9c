"""Step 8: the result columns of a shard, built on the host from one copy."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.schemas.plan import ResultFacts
from headrace.stages.faults import NULL_INPUT
from headrace.stages.forward import BatchResult

LIST_VALUE = "element"  # what Parquet's standard calls a list's values


class Results:
    """Takes batches' results in any order and gives Arrow columns in the shard's order.

    `values` (N, W) as written or (N, k) float32, `scales` (N,) float32 of int8 vectors, `classes`
    (N, k) int64 for a classifier, and `valid` (N,) bool: which rows have a result.
    """

    def __init__(self, rows: int, facts: ResultFacts) -> None:
        """Make room for `rows` results; what is never placed stays zero, and null in Arrow."""
        self.facts = facts
        width = facts.stored_width if facts.task == "embed" else facts.top_k
        dtype = "uint8" if facts.dtype == "binary" else facts.dtype
        self.values: npt.NDArray[Any] = np.zeros((rows, width), dtype)
        self.scales = np.zeros(rows, np.float32)
        self.classes = np.zeros((rows, width), np.int64)
        self.valid = np.zeros(rows, np.bool_)

    def place(self, rows: npt.NDArray[np.int64], result: BatchResult) -> None:
        """Put results (R, W) at their rows (R,)."""
        self.values[rows] = result.values
        if result.classes is not None:
            self.classes[rows] = result.classes
        if result.scales is not None:
            self.scales[rows] = result.scales
        self.valid[rows] = True

    def reaching(self, threshold: float) -> npt.NDArray[np.bool_]:
        """Say which scores (N, k) reach a threshold, both as float32."""
        reached: npt.NDArray[np.bool_] = self.values >= np.float32(threshold)
        return reached

    def columns(self) -> tuple[pa.Array, ...]:
        """The result columns, in the order of `AddedColumns.results` (schemas/columns.py).

        embed: the vector, and in int8 its scale. One label a row: label, score, and the best
        classes where more than one is asked for. Multi-label: the labels that reach the threshold.
        """
        missing = ~self.valid
        if self.facts.task == "embed":
            vectors = self._vectors(missing)
            if self.facts.dtype != "int8":
                return (vectors,)
            return vectors, pa.array(self.scales, mask=missing)
        names = pa.array(self.facts.labels, pa.string())
        if self.facts.threshold is not None:
            return (self._lists(names, self.reaching(self.facts.threshold), missing),)
        label = names.take(pa.array(self.classes[:, 0], mask=missing))
        score = pa.array(self.values[:, 0], mask=missing)
        if self.facts.top_k == 1:
            return label, score
        every = np.ones(self.classes.shape, np.bool_)
        return label, score, self._lists(names, every, missing)

    def _vectors(self, missing: npt.NDArray[np.bool_]) -> pa.Array:
        flat = pa.array(self.values.reshape(-1))
        kind = pa.list_(pa.field(LIST_VALUE, flat.type), self.facts.stored_width)
        return pa.FixedSizeListArray.from_arrays(flat, type=kind, mask=pa.array(missing))

    def _lists(
        self, names: pa.Array, kept: npt.NDArray[np.bool_], missing: npt.NDArray[np.bool_]
    ) -> pa.Array:
        """The kept classes (N, k) of each row that has a result, with their scores."""
        kept = kept & self.valid[:, None]
        pairs = pa.StructArray.from_arrays(
            [names.take(pa.array(self.classes[kept])), pa.array(self.values[kept])],
            names=["label", "score"],
        )
        offsets = np.concatenate([[0], np.cumsum(kept.sum(1))])
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()),
            pairs,
            type=pa.list_(pa.field(LIST_VALUE, pairs.type)),
            mask=pa.array(missing),
        )


def reasons_column(rows: int, nulls: npt.NDArray[np.int64], faults: Mapping[int, str]) -> pa.Array:
    """Say for each row without a result why: "null input", or exception class and stage."""
    reasons = np.full(rows, None, object)
    reasons[nulls] = NULL_INPUT
    for row, reason in faults.items():
        reasons[row] = reason
    return pa.array(reasons, pa.string())


def output_table(passed: pa.Table, added: Mapping[str, pa.Array], dropped: list[int]) -> pa.Table:
    """Put the passed-through columns and those that the job adds side by side.

    Args:
        passed: the input's columns, untouched.
        added: the results of `Results.columns` and the reasons of `reasons_column`, by name.
        dropped: rows to leave out.
    """
    table = passed
    for name, column in added.items():
        table = table.append_column(pa.field(name, column.type), column)
    if not dropped:
        return table
    # Arrow does not filter every type (26.0: string views); slices always work.
    edges = [-1, *sorted(dropped), table.num_rows]
    return pa.concat_tables(
        table.slice(before + 1, after - before - 1) for before, after in pairwise(edges)
    )
