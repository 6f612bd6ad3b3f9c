import os

import pynvml
import pytest
from nvml_standin import GIB, UNSUPPORTED, DeviceStandIn, NvmlStandIn, Refusal

from headrace.flows import gpus
from headrace.flows.gpus import find_gpus
from headrace.schemas.errors import JobError

A, B, C = "GPU-aa11", "GPU-aa22", "GPU-cc33"
M, N = "MIG-1", "MIG-2"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


@pytest.fixture
def machine(monkeypatch):
    """Stand in for NVML, and give the identifiers that are found with CUDA_VISIBLE_DEVICES."""

    def make(*devices, **settings):
        stand_in = NvmlStandIn(*devices, **settings)
        monkeypatch.setattr(gpus, "pynvml", stand_in)

        def found(visible=None):
            if visible is not None:
                monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
            try:
                return [gpu.id for gpu in find_gpus()]
            finally:
                assert stand_in.open == 0

        return found

    return make


@pytest.fixture
def three(machine):
    return machine(DeviceStandIn(A), DeviceStandIn(B), DeviceStandIn(C))


@pytest.fixture
def with_mig(machine):
    mig = [DeviceStandIn(M, "H200 MIG"), None, DeviceStandIn(N, "H200 MIG")]
    return machine(DeviceStandIn(A), DeviceStandIn(B, mig=mig))


def test_a_gpu_comes_with_its_name_and_memory(machine):
    machine(DeviceStandIn(A, "NVIDIA H200", total=80 * GIB, free=60 * GIB))
    (gpu,) = find_gpus()
    assert (gpu.id, gpu.name) == (A, "NVIDIA H200")
    assert (gpu.total_bytes, gpu.free_bytes) == (80 * GIB, 60 * GIB)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [A, B, C]),
        ("2,0", [C, A]),
        (f"{C}, {A}", [C, A]),
        ("GPU-c", [C]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("1,-1,2", [B]),
    ],
)
def test_cuda_visible_devices_is_respected(three, visible, expected):
    assert three(visible) == expected


@pytest.mark.parametrize("visible", ["3", "GPU-zz", "GPU-aa", "all", "0;1", "-2", "MIG-1", "0,7"])
def test_an_entry_that_is_not_one_gpu_is_refused(three, visible):
    with pytest.raises(JobError, match=f"CUDA_VISIBLE_DEVICES: expected .*{A}, {B}, {C}"):
        three(visible)


def test_a_gpu_that_is_named_twice_is_refused(three):
    with pytest.raises(JobError, match=f"each GPU once, got {A} again"):
        three(f"0,{A}")


def test_an_index_among_unlike_gpus_needs_an_order(machine, monkeypatch):
    found = machine(DeviceStandIn(A, "T4"), DeviceStandIn(B, "H200"))
    assert found() == found(f"{A},{B}") == [A, B]
    with pytest.raises(JobError, match=r"unlike GPUs \(H200, T4\)"):
        found("0")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert found("0") == [A]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, [A, M, N]), ("1", [M, N]), (B, [M, N]), (N, [N]), (f"{N},0", [N, A])],
)
def test_a_gpu_in_mig_mode_counts_as_its_instances(with_mig, visible, expected):
    assert with_mig(visible) == expected


def test_a_mig_instance_that_is_not_there_is_refused(with_mig):
    with pytest.raises(JobError, match=f"'MIG-3', which is 0 of {A}, {B}, {M}, {N}"):
        with_mig("MIG-3")


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED]
)
def test_without_a_driver_there_are_none(machine, code):
    assert machine(init=code)() == []


def test_a_driver_without_a_gpu_has_none(machine):
    assert machine()() == []


def test_a_driver_in_disorder_is_said(machine):
    with pytest.raises(JobError, match=r"version mismatch.*compute\.device: cpu"):
        machine(init=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)()


def test_a_lost_gpu_is_said(machine):
    lost = DeviceStandIn(A)
    lost.lost = True
    with pytest.raises(JobError, match="GPU is lost"):
        machine(lost)()


def test_a_driver_in_disorder_is_not_asked_where_no_gpu_is_wanted(machine):
    assert machine(init=pynvml.NVML_ERROR_UNKNOWN)("-1") == []


def test_a_gpu_that_shares_the_host_s_memory_has_none_of_its_own(machine):
    machine(DeviceStandIn(A, free=UNSUPPORTED))
    (gpu,) = find_gpus()
    assert (gpu.total_bytes, gpu.free_bytes) == (None, None)


def test_near_cores_are_ours_only(machine, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 64, 70})
    machine(DeviceStandIn(A, cores=(0, 1, 2, 64, 65)), DeviceStandIn(B, cores=range(1024)))
    assert [gpu.cores for gpu in find_gpus()] == [(1, 64), (1, 3, 64, 70)]


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_UNKNOWN])
def test_near_cores_may_be_unknown(machine, code):
    machine(DeviceStandIn(A, cores=Refusal(code)))
    assert find_gpus()[0].cores == ()
