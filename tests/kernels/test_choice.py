import importlib.util
import shutil
import sysconfig

import pytest
import torch

from headrace.kernels import choice
from headrace.kernels.choice import takes_triton, triton_lack


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch):
    triton_lack.cache_clear()
    yield
    monkeypatch.undo()
    triton_lack.cache_clear()


def test_without_triton_the_reference_runs(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(choice, "DEVICES", {"cpu"})
    assert triton_lack() == "it is not installed"
    assert not takes_triton("op", torch.zeros(1), fits=True)


def test_without_a_c_compiler_the_reference_runs(monkeypatch, tmp_path):
    """Triton builds its launchers with one, at the first call."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(choice, "DEVICES", {"cpu"})
    assert "no C compiler" in triton_lack()
    assert not takes_triton("op", torch.zeros(1), fits=True)
    triton_lack.cache_clear()
    monkeypatch.setenv("CC", "/opt/cc")
    monkeypatch.setattr(sysconfig, "get_path", lambda _: tmp_path)
    assert "Python's headers are missing" in triton_lack()
    triton_lack.cache_clear()
    (tmp_path / "Python.h").touch()
    assert triton_lack() is None


@pytest.mark.parametrize(("devices", "fits"), [({"cuda"}, True), ({"cpu"}, False)])
def test_another_device_or_shape_takes_the_reference(monkeypatch, devices, fits):
    monkeypatch.setattr(choice, "DEVICES", devices)
    monkeypatch.setattr(choice, "COUNTS", type(choice.COUNTS)())
    assert not takes_triton("op", torch.zeros(1), fits=fits)
    assert choice.COUNTS == {("op", "reference"): 1}
