import importlib.util
import sys
from pathlib import Path

import pytest
from gpu_names import EVERYWHERE, GPU_NAMES

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_imports.py"


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("gpu_imports", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_every_machine_has_has_every_name_that_the_road_uses(check):
    assert list(check.name_faults(EVERYWHERE)) == []


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("torch.cuda.no_such_name", (), "no_such_name"),
        ("no_such_package.name", (), "no_such_package"),
        ("torch.cuda.graph", ("no_such_parameter",), "no parameter ['no_such_parameter']"),
    ],
)
def test_a_name_that_is_not_there_is_found(check, name, given, words):
    (fault,) = check.name_faults({name: given})
    assert fault.startswith(f"{name}: ")
    assert words in fault


def test_a_variable_that_nobody_reads_is_found(check, monkeypatch):
    monkeypatch.setattr(check, "READERS", {"NO_SUCH_VARIABLE": "torch", "KVIKIO_NTHREADS": "torch"})
    monkeypatch.setattr(check, "_files", lambda _: [SCRIPT])
    faults = list(check.environment_faults({"NO_SUCH_VARIABLE": "1", "KVIKIO_NTHREADS": "64"}))
    assert faults == ["NO_SUCH_VARIABLE: no file of torch names it"]


def test_a_cython_class_is_looked_up_in_its_stub(check, tmp_path, monkeypatch):
    (tmp_path / "compiled.pyi").write_text(
        "class Reader:\n    def __init__(self, source: str, rows: int = 1) -> None: ...\n"
    )
    (tmp_path / "compiled.py").write_text(
        "class Meta(type):\n"
        "    @property\n"
        "    def __signature__(cls):\n"
        "        raise ValueError\n"
        "class Reader(metaclass=Meta):\n"
        "    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(check.name_faults({"compiled.Reader": ("source", "rows")})) == []
    (fault,) = check.name_faults({"compiled.Reader": ("columns",)})
    assert "columns" in fault
    sys.modules.pop("compiled")


def test_the_names_are_of_the_gpu_s_packages(check):
    assert {name.partition(".")[0] for name in GPU_NAMES} <= set(check.PACKAGES)
