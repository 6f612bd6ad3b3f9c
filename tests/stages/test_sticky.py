import pytest
import torch

from headrace.stages import sticky
from headrace.stages.sticky import EXIT_CODE, end_if_sticky


class Ended(BaseException):
    pass


@pytest.fixture
def gpu(monkeypatch):
    """Stand in for a GPU that answers, or not."""

    def make(error=None):
        def synchronize():
            if error is not None:
                raise error

        def end(code):
            raise Ended(code)

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
        monkeypatch.setattr(sticky.os, "_exit", end)

    return make


def test_a_process_whose_gpu_answers_goes_on(gpu):
    gpu()
    end_if_sticky(RuntimeError("CUDA error: out of memory"))


def test_a_process_whose_gpu_is_lost_ends_and_says_so(gpu, capfd):
    gpu(RuntimeError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(Ended) as ended:
        end_if_sticky(ValueError("the first sign"))
    assert ended.value.args == (EXIT_CODE,)
    said = capfd.readouterr().err
    assert "the GPU is lost to this worker" in said
    assert "illegal memory access" in said


def test_without_a_gpu_there_is_nothing_to_ask():
    end_if_sticky(RuntimeError("x"))
