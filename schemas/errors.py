"""Every error that headrace raises on purpose, and the exit code that the CLI gives it.

HeadraceError            1  something went wrong that no row and no shard is to blame for
├── JobError             2  the job, its arguments, its model or its input can't be used
├── OtherRunError        5  the output folder belongs to another job or another input
├── DamagedError         1  a file in the output folder can't be read
├── OutputError          1  the output folder can't be written: full, read-only, forbidden
├── ShardError           -  one shard can't be computed; the run goes on and ends with 3
└── PreemptedError       -  the worker is about to end; the shard goes back to the queue

A message says what was expected, what came, and what to do.
"""

import difflib
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """What the CLI exits with."""

    DONE = 0
    UNEXPECTED = 1
    BAD_JOB = 2
    FAILED = 3
    OTHER_RUN = 5
    FAULTY = 6
    INTERRUPTED = 130


class HeadraceError(Exception):
    """The base of all errors that headrace raises on purpose."""

    exit_code: ExitCode = ExitCode.UNEXPECTED


class JobError(HeadraceError):
    """The job, its arguments, its model or its input can't be used as they are."""

    exit_code = ExitCode.BAD_JOB


class OtherRunError(HeadraceError):
    """The output folder belongs to another job or another input."""

    exit_code = ExitCode.OTHER_RUN


class DamagedError(HeadraceError):
    """A file that headrace wrote can't be read any more."""


class OutputError(HeadraceError):
    """The output folder can't be written: the disk is full or read-only, or forbids it."""


class ShardError(HeadraceError):
    """A shard can't be computed, and computing it again would not help."""

    exit_code = ExitCode.FAILED


class PreemptedError(HeadraceError):
    """The worker is about to end, and the shard would not be done by then: nobody's failure."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """End a message with the nearest known name, or with nothing where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
