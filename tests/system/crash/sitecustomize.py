"""Loaded by every Python process of a run that is to crash: counts what it does to the output.

An operation is a call that changes a folder or makes it durable, on a path below CRASH_BELOW. They
are counted over all processes, in the file CRASH_COUNTER. At number CRASH_AT the process that does
it is killed, as by SIGKILL: before the operation, or behind it where CRASH_WHEN says "behind".
"""

import fcntl
import os
import signal

BELOW = os.environ.get("CRASH_BELOW")
COUNTER = os.environ.get("CRASH_COUNTER", "")
AT = int(os.environ.get("CRASH_AT", "0"))
BEHIND = os.environ.get("CRASH_WHEN") == "behind"


def _count():
    handle = os.open(COUNTER, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        number = int(os.read(handle, 20) or b"0") + 1
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, b"%d" % number)
        return number
    finally:
        os.close(handle)


def _is_below(path):
    if isinstance(path, int):  # a descriptor
        path = os.readlink(f"/proc/self/fd/{path}")  # noqa: PTH115 - as little as can be is imported
    return os.path.abspath(os.fspath(path)).startswith(BELOW)  # noqa: PTH100


def _watched(function):
    def call(path, *args, **named):
        if not _is_below(path):
            return function(path, *args, **named)
        number = _count()
        if number == AT and not BEHIND:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(path, *args, **named)
        if number == AT and BEHIND:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


if BELOW:
    for _name in ("link", "fsync", "rename", "replace", "unlink", "mkdir", "rmdir"):
        setattr(os, _name, _watched(getattr(os, _name)))
