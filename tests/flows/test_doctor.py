import pytest
import torch

from headrace.flows import doctor
from headrace.flows.doctor import examine
from headrace.flows.gpus import Gpu
from headrace.flows.show import Shown
from headrace.flows.show_plan import machine_view
from headrace.schemas.errors import JobError

GIB = 2**30
H200 = Gpu("GPU-one", "NVIDIA H200", 140 * GIB, 100 * GIB, ())
SHARED = Gpu("GPU-two", "NVIDIA GB10", None, None, ())


def text_of(machine):
    return repr(Shown(machine, machine_view))


def test_a_gpu_s_room_for_a_model_is_told(monkeypatch):
    monkeypatch.setattr(doctor, "find_gpus", lambda: (H200, SHARED))
    machine = examine()
    room, shared = machine.gpus
    assert room.left_bytes == (100 - 8 - 7) * GIB
    assert shared.left_bytes is None
    said = text_of(machine)
    assert "NVIDIA H200 (GPU-one)" in said
    assert "= 85.0 for a model" in said
    assert "shared with the host" in said


def test_gpus_that_torch_can_not_use_are_said(monkeypatch):
    monkeypatch.setattr(doctor, "find_gpus", lambda: (H200,))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    machine = examine()
    assert machine.device == "cpu"
    assert "can't use the GPUs: is it the CPU build?" in machine.notes[0]


def test_a_driver_in_disorder_is_said_and_the_rest_too(monkeypatch):
    def fail():
        raise JobError("expected the NVIDIA driver to list its GPUs, got an error")

    monkeypatch.setattr(doctor, "find_gpus", fail)
    machine = examine()
    assert machine.gpus == ()
    assert "expected the NVIDIA driver" in machine.notes[0]
    assert "GPUs" in text_of(machine)


@pytest.mark.parametrize("lack", [None, "there is no C compiler"])
def test_a_gpu_whose_kernels_do_not_run_is_said(monkeypatch, lack):
    monkeypatch.setattr(doctor, "find_gpus", lambda: (H200,))
    monkeypatch.setattr(doctor, "triton_lack", lambda: lack)
    monkeypatch.setattr(doctor, "multiplies_bf16", lambda _: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    said = [note for note in examine().notes if "kernels do not run" in note]
    assert [lack in note for note in said] == ([True] if lack else [])


def test_without_a_gpu_there_is_none(monkeypatch):
    monkeypatch.setattr(doctor, "find_gpus", lambda: ())
    assert examine().gpus == ()


@pytest.mark.parametrize("free", [0, GIB // 4])
def test_a_full_gpu_has_no_room(monkeypatch, free):
    monkeypatch.setattr(doctor, "find_gpus", lambda: (Gpu("GPU-1", "x", 80 * GIB, free, ()),))
    assert examine().gpus[0].left_bytes == 0
