"""Step 6a: choose one grid of static shapes for the run, from a sample of row lengths.

A batch has one of at most `max_shapes` lengths. Which lengths waste the fewest padded tokens is a
one-dimensional partition problem: cut the sorted distinct lengths into k runs, pay for each row the
longest length of its run. Dynamic programming solves it exactly (Bellman 1961, "On the
approximation of curves by line segments using dynamic programming").
"""

import numpy as np
import numpy.typing as npt

from headrace.schemas.plan import Shape

# Tail batches have an eighth of a full batch's rows, or a quarter, or half.
LADDER = (1, 2, 4, 8)
# Beyond this many distinct lengths, neighbours share a bin: the choice stays near the best one.
MAX_DISTINCT = 512

Lengths = npt.NDArray[np.int64]


def choose_grid(
    lengths: Lengths, *, max_length: int, max_shapes: int, batch_tokens: int, multiple: int
) -> tuple[Shape, ...]:
    """Choose the shapes, shortest first; the last one is as long as any row may be.

    Args:
        lengths: (S,) tokens of the sampled rows.
        max_length: the longest row that the tokenizer lets through.
        max_shapes: how many lengths the grid may have.
        batch_tokens: a full batch's budget; at least one row goes in, however long.
        multiple: lengths are multiples of it (tensor cores like 8), except `max_length` itself.
    """
    rounded = np.minimum(-(-np.maximum(lengths, 1) // multiple) * multiple, max_length)
    values, counts = np.unique(rounded, return_counts=True)
    values, counts = _binned(values, counts)
    if not values.size or values[-1] < max_length:  # no sampled row is so long; another may be
        values, counts = np.append(values, max_length), np.append(counts, 0)
    chosen = sorted(_best_cuts(values, counts, max_shapes))
    return tuple(Shape(length=n, rows=_ladder(n, batch_tokens)) for n in chosen)


def _ladder(length: int, batch_tokens: int) -> tuple[int, ...]:
    full = max(1, batch_tokens // length)
    return tuple(sorted({max(1, full // part) for part in LADDER}, reverse=True))


def _binned(values: Lengths, counts: Lengths) -> tuple[Lengths, Lengths]:
    if values.size <= MAX_DISTINCT:
        return values, counts
    step = -(-values.size // MAX_DISTINCT)
    starts = np.arange(0, values.size, step)
    last = np.minimum(starts + step, values.size) - 1
    return values[last], np.add.reduceat(counts, starts)


def _best_cuts(values: Lengths, counts: Lengths, shapes: int) -> list[int]:
    """Return the at most `shapes` of `values` that pad the counted rows least."""
    if values.size <= shapes:
        return [int(value) for value in values]
    below = np.concatenate([[0], np.cumsum(counts)])  # rows before each distinct length
    # cost[i, j]: every row of the distinct lengths i..j padded to the j-th.
    cost = values[None, :] * (below[None, 1:] - below[:-1, None]).astype(np.float64)
    cost[np.tril_indices(values.size, -1)] = np.inf
    best = cost[0]
    cuts = np.zeros((shapes, values.size), np.int64)
    for used in range(1, shapes):
        # Rows up to i - 1 are paid for, the run i..j is new.
        total = np.concatenate([[np.inf], best[:-1]])[:, None] + cost
        cuts[used] = np.argmin(total, axis=0)
        best = np.minimum(best, total.min(axis=0))
        cuts[used][total.min(axis=0) > best] = 0
    return _trace(values, cuts)


def _trace(values: Lengths, cuts: Lengths) -> list[int]:
    chosen, end = [], values.size - 1
    for used in range(cuts.shape[0] - 1, -1, -1):
        chosen.append(int(values[end]))
        end = int(cuts[used][end]) - 1
        if end < 0:
            break
    return chosen
