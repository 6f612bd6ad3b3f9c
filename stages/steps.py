"""Step 4b: the built-in preprocessing steps, written once as Narwhals expressions."""

from collections.abc import Sequence
from typing import Any, assert_never

import narwhals as nw

from headrace.schemas.errors import JobError, did_you_mean
from headrace.schemas.steps import (
    BareStep,
    Concat,
    FillNull,
    Replace,
    Template,
    TruncateChars,
)

Frame = nw.DataFrame[Any]
BuiltInStep = BareStep | TruncateChars | Replace | FillNull | Template | Concat

TEXT = "text"  # what a column made of several is called
WHITESPACE = " \t\n\r\v\f"
# Runs of whitespace, single spaces left out: those stay as they are, and each match costs time.
RUNS = f"[{WHITESPACE[1:]}][{WHITESPACE}]*| [{WHITESPACE}]+"


def apply_step(frame: Frame, step: BuiltInStep) -> Frame:
    """Apply one step to a frame of text columns (N rows); rows and their order stay.

    `template` and `concat` leave one column, `text`; every other step acts on every column.

    Raises:
        JobError: the step names a column that the frame has not.
    """
    if isinstance(step, Template):
        return _filled(frame, step)
    if isinstance(step, Concat):
        _check_known(frame, step.concat.columns, "concat")
        return joined(frame, step.concat.columns, step.concat.separator)
    return frame.with_columns(_changed(nw.col(name), step) for name in frame.columns)


def _changed(text: nw.Expr, step: BareStep | TruncateChars | Replace | FillNull) -> nw.Expr:
    match step:
        case "strip":
            changed = text.str.strip_chars(WHITESPACE)
        case "lower":
            changed = text.str.to_lowercase()
        case "collapse_whitespace":
            changed = text.str.replace_all(RUNS, " ")
        case "drop_empty":
            changed = nw.when(text != "").then(text)
        case TruncateChars():
            changed = text.str.slice(0, step.truncate_chars)
        case Replace(replace=how):
            changed = text.str.replace_all(how.find, how.with_, literal=not how.regex)
        case FillNull():
            changed = text.fill_null(step.fill_null)
        case _:
            assert_never(step)
    return changed


def joined(frame: Frame, columns: Sequence[str], separator: str) -> Frame:
    """Join columns into one, `text`. Nulls are left out; a row is null only if all are."""
    if len(columns) == 1:
        return frame.select(nw.col(columns[0]).alias(TEXT))
    text = nw.concat_str([nw.col(name) for name in columns], separator=separator, ignore_nulls=True)
    return _unless_all_null(frame, columns, text)


def prefixed(frame: Frame, prompt: str) -> Frame:
    """Put a prompt before each text of the one column `text`; nulls stay."""
    return frame.select(nw.concat_str([nw.lit(prompt), nw.col(TEXT)]).alias(TEXT))


def _filled(frame: Frame, step: Template) -> Frame:
    columns = [name for kind, name in step.pieces if kind == "column"]
    _check_known(frame, columns, "template")
    text = nw.concat_str(
        [
            nw.col(piece).fill_null("") if kind == "column" else nw.lit(piece)
            for kind, piece in step.pieces
        ]
    )
    return _unless_all_null(frame, columns, text)


def _unless_all_null(frame: Frame, columns: Sequence[str], text: nw.Expr) -> Frame:
    nulls = [nw.col(name).is_null() for name in columns]
    some = ~nw.all_horizontal(*nulls, ignore_nulls=False)
    return frame.select(nw.when(some).then(text).alias(TEXT))


def _check_known(frame: Frame, columns: Sequence[str], step: str) -> None:
    for name in columns:
        if name not in frame.columns:
            near = did_you_mean(name, frame.columns)
            msg = (
                f"preprocess: {step}: expected one of the columns that this step gets, "
                f"{frame.columns}, got {name!r}{near}"
            )
            raise JobError(msg)
