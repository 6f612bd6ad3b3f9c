"""The GPU check, rehearsed: its steps run on the CPU, or with the stand-ins."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from cuda_standin import LateCuda
from gpu_support import install

from headrace.schemas.plan import Shape
from headrace.stages import text_road

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
KERNELS = list(ROOT.glob("kernels/*/kernel.py"))


def run(pack, *arguments):
    env = os.environ | {"GPU_CHECK_PACK": str(pack), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [ROOT / "scripts" / "gpu_check.sh", *arguments],
        capture_output=True,
        text=True,
        env=env,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu-check") / "pack"
    done = run(folder, "pack")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def _scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Two test processes with a thread a core each would mostly wait for each other."""
    torch.set_num_threads(1)


@pytest.mark.xdist_group("gpu-check")
def test_the_pack_is_small_enough_to_be_carried(pack):
    size = sum(file.stat().st_size for file in pack.rglob("*") if file.is_file())
    assert 40 * MIB < size < 56 * MIB
    assert (pack / "model" / "1_Pooling" / "config.json").is_file()


@pytest.mark.xdist_group("gpu-check")
def test_a_rehearsal_runs_every_step_that_needs_no_gpu(pack):
    done = run(pack, "--rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    for words in (
        "| graphs                             | unmeasured | needs a GPU |",
        "| tokenizer                          | unmeasured |",
        "| kernels: bias_gelu                 | measured   | its reference ran: differs by ",
        "parity: bf16 against the CPU       | ok         | lowest cosine 0.999",
        "layouts: packed, fp32              | ok         | ",
        "end to end: rows that have a result",
        "end to end: idle share of the device",
        "end to end: share of the matrix rate",
        ", 0 failed, ",
    ):
        assert words in done.stdout


@pytest.mark.xdist_group("gpu-check")
def test_without_a_gpu_it_says_so(pack):
    done = run(pack)
    assert (done.returncode, "expected a GPU" in done.stdout) == (2, True)


def test_without_a_pack_it_says_how_to_make_one(tmp_path):
    done = run(tmp_path / "none")
    assert (done.returncode, "gpu_check.sh pack" in done.stderr) == (2, True)


@pytest.mark.xdist_group("gpu-check")
def test_where_dask_and_prefect_are_missing_it_still_runs(pack, tmp_path):
    """As on a bare image with torch and transformers; what it imports must not need them."""
    code = (
        "import sys\n"
        "for name in ('dask', 'distributed', 'prefect', 'cudf', 'dask_cuda', 'typer'):\n"
        "    sys.modules[name] = None\n"
        "import gpu_check, gpu_check_run, gpu_check_graphs, gpu_check_kernels\n"
        "import gpu_check_layouts, gpu_check_tokens\n"
    )
    env = os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}/scripts"}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=120)


def test_graphs_are_compared_shape_by_shape(minilm):
    from gpu_check_graphs import compare_graphs

    shapes = [Shape(length=8, rows=(4, 2)), Shape(length=16, rows=(2,))]
    lines = list(compare_graphs(minilm, "cpu", LateCuda(), shapes))
    assert [name for name, _, _ in lines] == ["captured", "4 x 8", "2 x 16"]
    assert all(holds for _, holds, _ in lines)
    assert lines[0][2].startswith("3 of 3 shapes")


@pytest.mark.xdist_group("gpu-check")
def test_packed_is_compared_with_bucketed_and_with_transformers(pack, tmp_path):
    from gpu_check_layouts import compare_layouts

    few = tmp_path / "few.parquet"
    pq.write_table(pq.read_table(pack / "rows.parquet").slice(0, 12), few)
    known = {"copies": 2, "batch_tokens": 128, "precision": "fp32", "rate": None}
    lines = list(compare_layouts(pack / "model", few, "cpu", LateCuda(), **known))
    assert [name for name, _, _ in lines] == [
        "transformers, SDPA, fp32",
        "bucketed, fp32",
        "packed, fp32",
    ]
    assert all(holds for _, holds, _ in lines)
    assert "1.00x transformers" in lines[0][2]


def test_kernels_are_compared_one_by_one(monkeypatch):
    """Here their references run on both sides, which the check must not take for the kernels."""
    import gpu_check_kernels as module

    best = module.Ceilings(torch.float32, 1e9, 1e9)
    lines = list(module.compare_kernels("cpu", 256, best))
    assert {op for op, _, _ in lines} == {file.parent.name for file in KERNELS}
    assert all(holds is None and said.startswith("its reference") for _, holds, said in lines)
    monkeypatch.setattr(module, "COUNTS", Always())
    lines = list(module.compare_kernels("cpu", 256, best))
    assert all(holds and "differs by 0.0e+00" in said for _, holds, said in lines)
    speeds = {op: said for op, _, said in lines}
    assert "of matrices" in speeds.pop("varlen_attention")
    assert all("of a copy" in said for said in speeds.values())


class Always:
    """Counts that say that a kernel ran since they were last asked."""

    def __init__(self):
        self.asked = 0

    def __getitem__(self, _):
        self.asked += 1
        return self.asked  # more, each time


@pytest.mark.xdist_group("gpu-check")
def test_tokens_are_compared_on_every_row(pack, monkeypatch):
    from gpu_check_tokens import compare_tokens

    install(monkeypatch)
    real = text_road.DeviceTexts
    monkeypatch.setattr(text_road, "DeviceTexts", lambda *args: real(*args[:4], "cpu"))
    lines = {
        name: (holds, value)
        for name, holds, value in compare_tokens(pack / "model", pack / "rows.parquet", "cpu")
    }
    assert lines["road"][0]
    assert lines["all rows"] == (True, "2,000 rows have the same tokens")
    assert set(lines) == {"road", "all rows", "cuDF, read to tokens", "tokenizers, read to tokens"}


def test_a_step_that_fails_fails_the_check_and_not_the_others(capsys):
    from gpu_check import Table

    table = Table()

    def broken():
        yield "first", True, "fine"
        raise ZeroDivisionError("oh\nno")

    table.check("one", broken)
    table.check("two", lambda: iter([("part", False, "bad")]))
    assert table.failed == 2
    said = capsys.readouterr().out
    assert "ZeroDivisionError: oh no" in said
