"""How errors are worded: the nearest known name, and what another library said, in short."""

from collections.abc import Sequence

from headrace.schemas.errors import did_you_mean

SHOWN_NAMES = 20
SHOWN_CHARACTERS = 300


def suggest(name: str, known: Sequence[str], known_are: str) -> str:
    """Say the nearest known name, or the first twenty where none is near.

    Args:
        name: what was written.
        known: what could have been meant, in the order to show.
        known_are: what a list of them is introduced by, as in "known here".

    Returns:
        The end of a message: "; did you mean 'text'?" or "; known here: a, b".
    """
    near = did_you_mean(name, known)
    if near:
        return near
    more = len(known) - SHOWN_NAMES
    return f"; {known_are}: {', '.join(known[:SHOWN_NAMES])}" + (
        f", … and {more:,} more" if more > 0 else ""
    )


def in_short(error: BaseException) -> str:
    """Name an error of another library by its class and the first line of what it says."""
    text = str(error).strip().partition("\n")[0]
    if len(text) > SHOWN_CHARACTERS:
        text = text[:SHOWN_CHARACTERS] + "…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
