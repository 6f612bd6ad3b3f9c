"""Threads that take turns at every operation on a folder: who goes next is decided from outside.

An operation is a call by which store.py and commit.py change a folder or make it durable. A writer
waits before each for its turn. What it then meets is one of `EVENTS`.
"""

import errno
import os
import threading

OPERATIONS = ("link", "fsync", "unlink", "mkdir")
# go: it is done. crash: the process is gone before it. died behind: it is done, and the process
# is gone. refused: it fails and is not done. unclear: it fails, and is done nevertheless.
EVENTS = ("go", "crash", "died behind", "refused", "unclear")
DEADLINE_S = 20


class Killed(BaseException):
    """What ends a writer's thread as a kill ends a process: nothing is done on the way out."""


class Writer:
    """One process that runs `work` on a thread of its own, an operation a turn."""

    def __init__(self, work):
        self.result = self.error = None
        self.dead = self.over = False
        self._event = None
        self._turn, self._waits = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        _writers[self._thread] = self
        self._thread.start()
        self._await()

    def step(self, event):
        """Let it do one operation, and come before the next one or to its end."""
        self._event = event
        self._turn.release()
        self._await()

    def finish(self):
        while not self.over:
            self.step("go")

    def _await(self):
        assert self._waits.acquire(timeout=DEADLINE_S), "a writer hangs"
        if self.over:
            self._thread.join(DEADLINE_S)

    def _run(self, work):
        try:
            self.result = work()
        except Killed:
            self.dead = True
        except OSError as error:
            self.error = error
        finally:
            self.over = True
            del _writers[threading.current_thread()]
            self._waits.release()

    def operate(self, function, *args, **named):
        if self.dead:
            raise Killed
        self._waits.release()
        assert self._turn.acquire(timeout=DEADLINE_S)
        event = self._event
        if event == "crash":
            self.dead = True
            raise Killed
        if event != "refused":
            result = function(*args, **named)
        if event == "died behind":
            self.dead = True
            raise Killed
        if event != "go":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return result


_writers = {}


def watched(function):
    """Make an operation wait for its turn, where the thread is a writer's."""

    def call(*args, **named):
        writer = _writers.get(threading.current_thread())
        if writer is None:
            return function(*args, **named)
        return writer.operate(function, *args, **named)

    return call
