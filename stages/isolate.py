"""Step 9: run the batches, whatever a row does: halve on memory, bisect to the guilty rows."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from headrace.schemas.errors import HeadraceError, ShardError
from headrace.stages.batch import StaticBatch
from headrace.stages.faults import HOPELESS_ROWS
from headrace.stages.forward import BatchResult

NOT_FINITE = "NonFiniteResult in forward"
# A model's code may even call sys.exit: that must not end the worker.
ANY = (Exception, SystemExit)
OOM_TEXTS = ("out of memory", "can't allocate memory", "ALLOC_FAILED")

Collect = Callable[[], BatchResult]
Launch = Callable[[StaticBatch], Collect]
Place = Callable[[npt.NDArray[np.int64], BatchResult], None]


@dataclass
class Outcome:
    """What became of a shard's batches."""

    faults: dict[int, str] = field(default_factory=dict)  # row -> reason
    good: int = 0
    batches: int = 0
    padded_tokens: int = 0
    oom_halvings: int = 0
    token_limit: int | None = None  # set by the first out-of-memory, kept from then on
    shapes: dict[str, int] = field(default_factory=dict)


def run_batches(
    batches: Iterable[StaticBatch],
    launch: Launch,
    place: Place,
    depth: int = 1,
    token_limit: int | None = None,
) -> Outcome:
    """Run every batch and place every good row's result; name the rows that have none.

    Args:
        batches: what to run, in order.
        launch: begins one batch and returns what waits for its result. Either may raise anything.
        place: takes rows (R,) and their results.
        depth: how many batches may be under way at once.
        token_limit: a larger batch is halved before it is tried.

    Raises:
        ShardError: 64 rows failed and none succeeded.
        HeadraceError: the model found the job itself at fault.
    """
    outcome, todo = Outcome(token_limit=token_limit), iter(batches)
    again: list[StaticBatch] = []  # last first
    running: deque[tuple[StaticBatch, Collect]] = deque()
    try:
        while True:
            batch = again.pop() if again else next(todo, None)
            if batch is not None and _above(batch, outcome.token_limit):
                again += _halves(batch)
                continue
            if batch is not None:
                again += _begin(batch, launch, running, outcome)
            if running and (batch is None or len(running) == depth):
                again += _end(*running.popleft(), place, outcome)
            _give_up_if_hopeless(outcome)
            if batch is None and not running and not again:
                return outcome
    finally:
        for _, collect in running:  # none may still read what the caller now lets go
            with suppress(Exception):
                collect()


def _begin(
    batch: StaticBatch,
    launch: Launch,
    running: deque[tuple[StaticBatch, Collect]],
    outcome: Outcome,
) -> list[StaticBatch]:
    """Begin one batch. Returns what is to be run in its place, last first."""
    outcome.batches += 1
    outcome.padded_tokens += batch.padded_tokens
    outcome.shapes[batch.shape] = outcome.shapes.get(batch.shape, 0) + 1
    try:
        running.append((batch, launch(batch)))
    except HeadraceError:
        raise
    except ANY as error:  # any row may raise anything; its name is reported
        return _failed(batch, error, outcome)
    return []


def _end(batch: StaticBatch, collect: Collect, place: Place, outcome: Outcome) -> list[StaticBatch]:
    """Wait for one batch. Returns what is still to be run of it, last first."""
    try:
        result = collect()
    except HeadraceError:
        raise
    except ANY as error:
        return _failed(batch, error, outcome)
    return _keep_finite(batch, result, place, outcome)


def _failed(batch: StaticBatch, error: BaseException, outcome: Outcome) -> list[StaticBatch]:
    """Halve a batch that raised; a row that raises alone is at fault."""
    if batch.height > 1:
        if is_out_of_memory(error):
            outcome.oom_halvings += 1
            half = max(1, batch.padded_tokens // 2)
            outcome.token_limit = min(half, outcome.token_limit or half)
        return _halves(batch)
    outcome.faults[int(batch.rows[0])] = f"{type(error).__name__} in forward"
    return []


def _keep_finite(
    batch: StaticBatch, result: BatchResult, place: Place, outcome: Outcome
) -> list[StaticBatch]:
    """Place the finite rows. The others run again without them: one row may spoil a batch."""
    finite = result.finite
    if finite.any():
        place(batch.rows[finite], result.where_finite())
        outcome.good += int(finite.sum())
    bad = batch.rows[~finite]
    if bad.size == 0:
        return []
    if batch.height == 1:
        outcome.faults[int(bad[0])] = NOT_FINITE
        return []
    again = batch.take(np.flatnonzero(~finite))
    return [again] if bad.size < batch.rows.size else _halves(again)


def _halves(batch: StaticBatch) -> list[StaticBatch]:
    """Halve the rows; a single row that was padded up to a ladder's height runs alone."""
    every = np.arange(batch.rows.size)
    middle = -(-every.size // 2)
    return [batch.take(part) for part in (every[middle:], every[:middle]) if part.size]


def _above(batch: StaticBatch, token_limit: int | None) -> bool:
    return token_limit is not None and batch.height > 1 and batch.padded_tokens > token_limit


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that memory ran out, on the device or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in OOM_TEXTS)


def _give_up_if_hopeless(outcome: Outcome) -> None:
    if outcome.good == 0 and len(outcome.faults) >= HOPELESS_ROWS:
        reasons = sorted(set(outcome.faults.values()))
        msg = (
            f"expected the model to compute some row, and the first {len(outcome.faults)} all "
            f"failed with {reasons}: the fault is not in the rows. Try the model on one row by hand"
        )
        raise ShardError(msg)
