"""Clusters are started for real; the GPUs, dask-cuda and NVML are stand-ins."""

import json
import os
import subprocess
import sys

import pytest

from headrace.flows import cluster, worker_specs
from headrace.flows.cluster import open_cluster
from headrace.flows.gpus import Gpu
from headrace.schemas.errors import JobError
from headrace.stages.gpu_setup import pool_bytes

GIB = 2**30
# dask-cuda's plugins need a driver; these write down what was asked for, in the worker.
PLUGINS = """
ASKED = []

class Plugin:
    def __init__(self, **settings):
        self.settings = settings

    def setup(self, worker):
        ASKED.append([type(self).__name__, self.settings])

class CPUAffinity(Plugin): pass
class RMMSetup(Plugin): pass
class CUDFSetup(Plugin): pass

import os  # read by CUDA's libraries at import, so it must be there already
SEEN_AT_IMPORT = os.environ.get("CUDA_VISIBLE_DEVICES")
"""
BROKEN_PLUGINS = """
class CPUAffinity:
    def __init__(self, **settings): pass
    def setup(self, worker): raise RuntimeError("the pool did not fit")
CUDFSetup = RMMSetup = CPUAffinity
"""
# Any use of NVML by Dask's own monitoring fails the process that does it.
PYNVML = """
def nvmlInit():
    raise RuntimeError("Dask asked NVML")
"""
# No main guard, as in a user's own script.
SCRIPT = """
import json, os, signal, sys, time
import psutil
from headrace.flows import cluster, worker_specs
from headrace.flows.gpus import Gpu
from headrace.schemas.errors import HeadraceError
from headrace.schemas.job import Job

GPUS = (
    Gpu("GPU-aa", "H200", 80 * 2**30, 40 * 2**30, (0,)),
    Gpu("MIG-bb", "H200 MIG", None, None, ()),
    Gpu("GPU-cc", "H200", 80 * 2**30, 40 * 2**30, ()),
)
worker_specs.find_gpus = lambda: GPUS
if "--plain" in sys.argv:
    worker_specs.RAPIDS = ("no_such_package",)
job = Job.model_validate({
    "name": "unit",
    "input": {"path": "in", "text": "text"},
    "model": {"path": "model", "task": "embed"},
    "output": {"path": "out"},
    "compute": {"workers": 2},
})
said = []

def look(dask_worker):
    import os, sys, dask
    plugins = sys.modules.get("dask_cuda.plugins")
    return {
        "pid": os.getpid(),
        "env": dict(os.environ),
        "asked": plugins and plugins.ASKED,
        "seen_at_import": plugins and plugins.SEEN_AT_IMPORT,
        "threads": dask_worker.state.nthreads,
        "data": type(dask_worker.data).__name__,
        "nvml": dask.config.get("distributed.diagnostics.nvml"),
    }

def signalled(pids):
    for pid in pids:
        for process in (psutil.Process(pid), psutil.Process(pid).parent()):
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
    time.sleep(0.2)

try:
    with cluster.open_cluster(job, None, None, said.append) as opened:
        found = list(opened.client.run(look).values())
        signalled([one["pid"] for one in found])
        alive = [one["pid"] for one in opened.client.run(look).values()]
        print(json.dumps({"workers": found, "said": said, "alive": alive}))
except HeadraceError as error:
    print(json.dumps({"error": str(error)}))
"""


def started(folder, *arguments, plugins=PLUGINS):
    """Open a cluster in a script of its own; give what its workers say."""
    (folder / "dask_cuda").mkdir()
    (folder / "dask_cuda" / "__init__.py").touch()
    (folder / "dask_cuda" / "plugins.py").write_text(plugins)
    (folder / "rmm.py").touch()
    (folder / "pynvml.py").write_text(PYNVML)
    (folder / "script.py").write_text(SCRIPT)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, folder / "script.py", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "-1"},
    )
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def gpu_cluster(tmp_path_factory):
    told, stderr = started(tmp_path_factory.mktemp("gpus"))
    assert stderr == ""
    told["workers"].sort(key=lambda one: one["env"]["CUDA_VISIBLE_DEVICES"])
    return told


def test_each_gpu_has_a_worker_process_of_its_own(gpu_cluster):
    seen = [one["env"]["CUDA_VISIBLE_DEVICES"] for one in gpu_cluster["workers"]]
    assert seen == ["GPU-aa", "MIG-bb"]  # two of three, as the job says
    assert len({one["pid"] for one in gpu_cluster["workers"]}) == 2
    assert gpu_cluster["said"] == []


def test_the_environment_is_there_before_cuda_s_libraries(gpu_cluster):
    for one in gpu_cluster["workers"]:
        assert one["seen_at_import"] == one["env"]["CUDA_VISIBLE_DEVICES"]
        assert one["env"]["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
        assert one["env"]["CUDF_PER_THREAD_STREAM"] == "1"


def test_the_cores_are_shared_out_and_dask_keeps_the_data_in_memory(gpu_cluster):
    share = str(max(1, len(os.sched_getaffinity(0)) // 2))
    for one in gpu_cluster["workers"]:
        assert (one["env"]["OMP_NUM_THREADS"], one["threads"]) == (share, 3)
        assert one["data"] == "dict"  # no second spiller


def test_the_plugins_are_dask_cuda_s_in_their_order(gpu_cluster):
    initial, most = pool_bytes(40 * GIB)
    pool = {
        "initial_pool_size": initial,
        "maximum_pool_size": most,
        "managed_memory": False,
        "async_alloc": False,
        "release_threshold": None,
        "log_directory": None,
        "track_allocations": False,
        "external_lib_list": None,
    }
    assert gpu_cluster["workers"][0]["asked"] == [
        ["CPUAffinity", {"cores": [0]}],
        ["RMMSetup", pool],
        ["CUDFSetup", {"spill": False, "spill_stats": 0}],
    ]


def test_a_gpu_on_the_host_s_memory_has_no_pool_and_does_not_spill(gpu_cluster):
    assert gpu_cluster["workers"][1]["asked"] == [["CUDFSetup", {"spill": False, "spill_stats": 0}]]


def test_signals_do_not_reach_the_workers(gpu_cluster):
    assert sorted(gpu_cluster["alive"]) == sorted(one["pid"] for one in gpu_cluster["workers"])


def test_dask_leaves_nvml_alone(gpu_cluster):
    assert [one["nvml"] for one in gpu_cluster["workers"]] == [False, False]


def test_without_dask_cuda_it_is_said_and_the_workers_are_plain(tmp_path):
    told, _ = started(tmp_path, "--plain")
    (line,) = told["said"]
    assert "no no_such_package here" in line
    assert "headrace[cuda13]" in line
    seen = sorted(one["env"]["CUDA_VISIBLE_DEVICES"] for one in told["workers"])
    assert seen == ["GPU-aa", "MIG-bb"]
    assert [one["asked"] for one in told["workers"]] == [None, None]


def test_a_worker_that_can_not_start_ends_the_run_at_once(tmp_path):
    told, stderr = started(tmp_path, plugins=BROKEN_PLUGINS)
    assert "expected 2 Dask workers" in told["error"]
    assert "ended at its start" in told["error"]
    assert "the pool did not fit" in stderr


GPUS = tuple(Gpu(f"GPU-{at}", "H200", GIB, GIB, ()) for at in range(2))


@pytest.fixture
def asked(monkeypatch):
    """Say what would be started, and start nothing."""
    monkeypatch.setattr(worker_specs, "find_gpus", lambda: GPUS)
    monkeypatch.setattr(cluster, "_own", lambda workers, deadline_s: iter([workers]))

    def ask(job, workers=None):
        with open_cluster(job, None, workers, lambda _: None) as started:
            return [spec.nanny.rpartition(".")[2] for spec in started]

    return ask


@pytest.mark.parametrize("device", ["auto", "cuda"])
@pytest.mark.parametrize(("wanted", "count"), [("auto", 2), (1, 1), (2, 2)])
def test_there_are_as_many_workers_as_gpus_or_as_the_job_says(
    asked, make_job, device, wanted, count
):
    job = make_job(compute__device=device, compute__workers=wanted)
    assert asked(job) == ["GpuNanny"] * count


def test_more_workers_than_gpus_are_refused(asked, make_job):
    with pytest.raises(JobError, match=r"compute\.workers: expected at most 2, .* got 3"):
        asked(make_job(compute__workers=3))
    with pytest.raises(JobError, match=r"--workers: expected at most 2, .* got 4"):
        asked(make_job(), workers=4)


def test_a_job_for_the_cpu_asks_for_no_gpu(asked, make_job, monkeypatch):
    monkeypatch.setattr(worker_specs, "find_gpus", lambda: pytest.fail("asked for GPUs"))
    assert asked(make_job(compute__device="cpu")) == ["ShieldedNanny"]
    assert asked(make_job(compute__device="cpu"), workers=3) == ["ShieldedNanny"] * 3


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_machine_without_a_gpu_has_plain_workers(asked, make_job, monkeypatch, device):
    monkeypatch.setattr(worker_specs, "find_gpus", lambda: ())
    job = make_job(compute__device=device, compute__workers=2)
    assert asked(job) == ["ShieldedNanny"] * 2
    assert asked(make_job(compute__device=device)) == ["ShieldedNanny"]
