"""Every kernel compiles to machine code, for three generations of GPUs, without one."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = 80
FILES = sorted(ROOT.glob("kernels/*/kernel.py"))
SOURCES = [*FILES, *sorted(ROOT.glob("kernels/*/*.cu"))]


def codes():
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "kernel_code.py", "--json"],
        capture_output=True,
        text=True,
        env=env,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_kernel_is_compiled_for_every_target_and_nothing_spills():
    found = codes()
    ops = {file.parent.name for file in FILES}
    assert {(code["op"], code["target"]) for code in found} == {
        (op, target) for op in ops for target in (80, 90, 100)
    }
    for code in found:
        assert code["spilled_bytes"] == 0, code
        assert 0 < code["registers"] <= 255, code
        assert code["shared_bytes"] <= 100 * 1024, code  # of a block, on the smallest target


def test_a_source_that_does_not_compile_is_said_in_the_compiler_s_words(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from nvrtc import NvrtcError, compile_cubin

    with pytest.raises(NvrtcError, match='identifier "no_such_name" is undefined'):
        compile_cubin("__global__ void kernel() { no_such_name(); }", 90)


def test_a_built_package_has_the_sources_in_cuda_c():
    """As setuptools would put them in; a wheel without them fails on the first GPU."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["headrace"]
    shipped = {file for pattern in patterns for file in (ROOT / "src/headrace").glob(pattern)}
    assert {file.name for file in shipped} >= {
        file.name for file in SOURCES if file.suffix == ".cu"
    }


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.name + " " + file.parent.name)
def test_a_kernel_is_read_in_one_sitting(file):
    assert len(file.read_text().splitlines()) <= MOST_LINES
