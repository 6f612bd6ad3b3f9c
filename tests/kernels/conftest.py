"""Triton's kernels run here in its interpreter, on CPU tensors."""

import os

os.environ["TRITON_INTERPRET"] = "1"  # before a kernel's module is imported

import numpy as np
import pytest
import torch

from headrace.kernels import choice

# What a kernel may differ from its reference, by the dtype of what it writes: one rounding of the
# result, and what sums in another order differ by. It never softens.
TOLERANCE = {
    torch.float32: {"atol": 2e-6, "rtol": 2e-5},
    torch.float16: {"atol": 1e-3, "rtol": 2e-3},
    torch.bfloat16: {"atol": 8e-3, "rtol": 1.6e-2},
}


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Two test processes with a thread a core each would mostly wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture
def same():
    """Compare by the table."""

    def compare(found, expected):
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, **TOLERANCE[expected.dtype], equal_nan=True)

    return compare


@pytest.fixture
def kernels(monkeypatch):
    """Let kernels take CPU tensors, fill new memory with garbage, and say which way ran."""
    monkeypatch.setattr(choice, "DEVICES", {"cpu"})
    monkeypatch.setattr(choice, "triton_lack", lambda: None)  # the interpreter lacks nothing
    monkeypatch.setattr(choice, "COUNTS", type(choice.COUNTS)())
    empty = torch.empty

    def poisoned(*args, **named):
        made = empty(*args, **named)
        return made.fill_(torch.nan if made.is_floating_point() else 77 % 2)

    monkeypatch.setattr(torch, "empty", poisoned)
    with np.errstate(all="ignore"):  # a row may overflow: that is what is tested
        yield choice.COUNTS
