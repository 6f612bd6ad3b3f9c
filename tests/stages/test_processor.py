import pytest
import torch

from headrace.schemas.errors import JobError
from headrace.stages.processor import choose_device, multiplies_bf16


def test_the_device_is_the_one_that_is_there(monkeypatch):
    for has_gpu, wanted, expected in [
        (False, "auto", "cpu"),
        (False, "cpu", "cpu"),
        (True, "auto", "cuda"),
        (True, "cuda", "cuda"),
        (True, "cpu", "cpu"),
    ]:
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        assert choose_device(wanted) == expected


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(JobError, match=r"compute\.device"):
        choose_device("cuda")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [({}, False), ({"avx512_bf16": True}, True), ({"amx_bf16": True, "avx512_bf16": False}, True)],
)
def test_a_cpu_s_flags_tell_whether_it_multiplies_bf16(monkeypatch, flags, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags)
    assert multiplies_bf16("cpu") is expected


def test_a_gpu_that_emulates_bf16_does_not_multiply_it(monkeypatch):
    asked = []

    def supported(*, including_emulation):
        asked.append(including_emulation)
        return False

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    assert multiplies_bf16("cuda") is False
    assert asked == [False]
