"""A stand-in for stages/cuda.py on a CPU, which is late on purpose.

What is copied out arrives when its event is waited for, never before. Memory starts as garbage. A
replay overwrites what every other graph gave, as graphs in one pool of memory may.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import torch

GARBAGE = {torch.int64: -7, torch.bool: False, torch.int8: -7, torch.uint8: 7}


@dataclass
class Event:
    at: int
    copies: list = field(default_factory=list)


class LateCuda:
    def __init__(self, *, holds=10**9, available=10**9, total=10**9):
        self.holds, self.available, self.total = holds, available, total
        self.clock, self.captured, self.waited, self.gave_back = count(), [], [], 0

    @contextmanager
    def computing(self):
        yield

    def empty(self, shape, dtype):
        return torch.full(tuple(shape), GARBAGE.get(dtype, torch.nan), dtype=dtype)

    pinned = empty

    def to_device(self, values):
        return values.clone()

    def mark(self):
        return Event(next(self.clock))

    def copy_out(self, pairs):
        return Event(next(self.clock), list(pairs))

    def wait(self, event):
        self.waited.append(event)
        with torch.inference_mode():
            for target, source in event.copies:
                target.copy_(source)

    def seconds(self, start, end):
        assert end in self.waited or not end.copies
        return float(end.at - start.at)

    def capture(self, work):
        mine = work()
        tensors = [tensor for tensor in mine if tensor is not None]
        self.captured.append(tensors)

        def replay():
            new = [tensor for tensor in work() if tensor is not None]
            for others in self.captured:
                for other in others:
                    other.fill_(GARBAGE.get(other.dtype, torch.nan))
            for tensor, value in zip(tensors, new, strict=True):
                tensor.copy_(value)

        return replay, mine

    def memory(self):
        return self.available, self.total

    def peak_bytes(self, work):
        work()
        return 1_000

    def give_back(self):
        self.gave_back += 1
