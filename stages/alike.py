"""How much two tables of the same rows are alike: what was written, and what is computed again."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.schemas.plan import ResultFacts
from headrace.stages.gate import MAX_SCORE_DIFFERENCE, MIN_COSINE, cosines
from headrace.stages.results import Results

MAX_LENGTH_RATIO = 1.01  # of two vectors that point the same way
MIN_EQUAL_BITS = 0.95  # a value near zero may have either bit

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Likeness:
    """How much each of N rows is like the other: 1 is the same."""

    values: Floats  # (N,)
    good: npt.NDArray[np.bool_]  # (N,): as good as a run on another machine would be
    measure: str  # what `values` are, with the lowest


def differing_column(left: pa.Table, right: pa.Table) -> str | None:
    """Name the first column that is not bit for bit the same in two tables; None: all are.

    For Arrow NaN is no NaN, and 0.0 is -0.0: columns are compared as Parquet would write them.
    """
    names: list[str] = left.column_names
    for name in names:
        ours, theirs = left.column(name), right.column(name)
        if ours.type != theirs.type or len(ours) != len(theirs):
            return name
        if _plain_bytes(ours) != _plain_bytes(theirs):
            return name
    return None


def _plain_bytes(column: pa.ChunkedArray) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"column": column.combine_chunks()})
    as_it_is = {"use_dictionary": False, "compression": "none", "store_schema": False}
    pq.write_table(table, sink, write_statistics=False, **as_it_is)
    return sink.getvalue()


def likeness(results: Results, there: pa.Table) -> Likeness:
    """Compare results (N rows) with those that stand in the result columns of a part.

    A vector is like another if their cosine is at least 0.999 and their lengths differ by no more
    than 1 %; in binary, if 95 % of their bits are equal. Classes are alike if no score differs by
    more than 0.01; one that only one side lists counts with the most that the other leaves for it.
    """
    facts = results.facts
    here = pa.table(list(results.columns()), names=there.column_names)
    both = [_valid(table) for table in (here, there)]
    values = np.where(both[0] == both[1], 1.0, 0.0)
    rows = np.flatnonzero(both[0] & both[1])
    good = both[0] == both[1]
    if rows.size:
        pair = [table.take(pa.array(rows)) for table in (here, there)]
        compare = _compare_vectors if facts.task == "embed" else _compare_classes
        values[rows], good[rows] = compare(pair[0], pair[1], facts)
    lowest = float(values.min(initial=1.0))
    return Likeness(values, good, f"lowest {_name_of(facts)} {lowest:.4f}")


def _name_of(facts: ResultFacts) -> str:
    if facts.task != "embed":
        return "likeness of scores"
    return "share of equal bits" if facts.dtype == "binary" else "cosine"


def _valid(table: pa.Table) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = table.column(0).is_valid().to_numpy()
    return valid


def _compare_vectors(
    here: pa.Table, there: pa.Table, facts: ResultFacts
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    ours, theirs = _vectors(here), _vectors(there)
    if facts.dtype == "binary":
        bits = [np.unpackbits(each, axis=1)[:, : facts.width] for each in (ours, theirs)]
        equal: Floats = (bits[0] == bits[1]).mean(1)
        return equal, equal >= MIN_EQUAL_BITS
    if facts.dtype == "int8":
        ours, theirs = (
            vectors * table.column(1).to_numpy()[:, None]
            for vectors, table in ((ours, here), (theirs, there))
        )
    cosine = cosines(ours, theirs)
    lengths = np.sort([np.linalg.norm(each.astype(float), axis=1) for each in (ours, theirs)], 0)
    return cosine, (cosine >= MIN_COSINE) & (lengths[1] <= MAX_LENGTH_RATIO * lengths[0])


def _vectors(table: pa.Table) -> npt.NDArray[Any]:
    column = table.column(0).combine_chunks()
    flat: npt.NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1)


def _compare_classes(
    here: pa.Table, there: pa.Table, facts: ResultFacts
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    ours, theirs = _scores(here, facts), _scores(there, facts)
    filled = [
        np.where(np.isnan(mine) & ~np.isnan(other), _left_over(mine, facts)[:, None], mine)
        for mine, other in ((ours, theirs), (theirs, ours))
    ]
    gap = np.nan_to_num(np.abs(filled[0] - filled[1])).max(1)
    return 1.0 - gap, gap <= MAX_SCORE_DIFFERENCE


def _scores(table: pa.Table, facts: ResultFacts) -> Floats:
    """Spread each row's listed classes over (N, C) scores; NaN where a class is not listed."""
    scores = np.full((table.num_rows, facts.width), np.nan)
    place = {label: at for at, label in reversed(list(enumerate(facts.labels)))}
    for row, classes in enumerate(_listed(table)):
        for label, score in classes:
            scores[row, place[label]] = score
    return scores


def _listed(table: pa.Table) -> list[list[tuple[str, float]]]:
    last = table.column(table.num_columns - 1)
    if pa.types.is_list(last.type):
        return [[(one["label"], one["score"]) for one in row] for row in last.to_pylist()]
    labels = pc.cast(table.column(0), pa.string()).to_pylist()
    return [[pair] for pair in zip(labels, last.to_pylist(), strict=True)]


def _left_over(scores: Floats, facts: ResultFacts) -> Floats:
    """Say how much (N,) a class may have at most that a row does not list."""
    if facts.threshold is not None:
        return np.full(len(scores), facts.threshold)
    lowest: Floats = np.nanmin(scores, axis=1)
    if facts.activation == "sigmoid":
        return lowest
    rest: Floats = np.minimum(lowest, np.maximum(0.0, 1.0 - np.nansum(scores, axis=1)))
    return rest
