import threading
import time

import pynvml
import pytest
from nvml_standin import GIB, UNSUPPORTED, DeviceStandIn, NvmlStandIn, Refusal

from headrace.stages import nvml
from headrace.stages.nvml import Gauge, Reading

UUID = "GPU-11111111-aaaa"


@pytest.fixture
def gauge_of(monkeypatch):
    """Make a gauge of a device, sampled often enough for a fast test."""
    monkeypatch.setattr(nvml, "PERIOD_S", 0.002)

    def make(device, **settings):
        monkeypatch.setattr(nvml, "pynvml", NvmlStandIn(device, **settings))
        return Gauge(device.uuid)

    return make


def measured(gauge, seconds=0.05):
    gauge.start()
    time.sleep(seconds)
    return gauge.stop()


def test_a_gpu_tells_all(gauge_of):
    device = DeviceStandIn(
        UUID,
        utilization=[0.0, 1.0, 0.5],
        used=[GIB, 3 * GIB, 2 * GIB],
        energy_mj=[1_000, 7_201_000],
    )
    reading = measured(gauge_of(device))
    assert reading.peak_memory_bytes == 3 * GIB
    assert reading.energy_wh == 2.0
    assert reading.power_w > 1_000
    assert 0.4 < reading.utilization < 0.7
    assert reading.reason is None


def test_power_is_the_energy_over_the_time(gauge_of):
    gauge = gauge_of(DeviceStandIn(UUID, energy_mj=[0, 10_000], power_mw=Refusal(999)))
    reading = measured(gauge, 0.1)
    assert 10 / 0.2 < reading.power_w <= 10 / 0.1
    assert reading.reason is None  # power itself was never asked for


def test_samples_of_the_power_stand_in_for_the_energy(gauge_of):
    reading = measured(gauge_of(DeviceStandIn(UUID, energy_mj=UNSUPPORTED, power_mw=360_000)), 0.1)
    assert reading.power_w == pytest.approx(360.0)
    assert 0.01 <= reading.energy_wh < 0.02  # 0.1 s of it, or little more


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT]
)
def test_what_a_mig_instance_can_not_tell_is_none(gauge_of, code):
    no = Refusal(code)
    device = DeviceStandIn("MIG-2", utilization=no, energy_mj=no, power_mw=no)
    assert measured(gauge_of(device)) == Reading(None, GIB, None, None, None)


def test_the_shortest_shard_is_sampled_too(gauge_of, monkeypatch):
    gauge = gauge_of(DeviceStandIn(UUID))
    monkeypatch.setattr(nvml, "PERIOD_S", 60)
    reading = measured(gauge, 0)
    assert (reading.utilization, reading.peak_memory_bytes) == (0.5, GIB)


def test_each_start_measures_anew(gauge_of):
    device = DeviceStandIn(UUID, used=[5 * GIB])
    gauge = gauge_of(device)
    assert measured(gauge).peak_memory_bytes == 5 * GIB
    device.answers["used"] = [GIB]
    assert measured(gauge).peak_memory_bytes == GIB


def test_a_gpu_that_gets_lost_tells_nothing_and_the_reason_is_said(gauge_of):
    device = DeviceStandIn(UUID)
    gauge = gauge_of(device)
    gauge.start()
    time.sleep(0.02)
    device.lost = True
    reading = gauge.stop()
    assert reading == Reading(None, None, None, None, "NVML lost its utilization: GPU is lost")
    assert measured(gauge) == reading


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"init": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}, "NVML Shared Library Not Found"),
        ({"init": pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH}, "version mismatch"),
    ],
)
def test_without_nvml_nothing_is_told_and_the_reason_is_said(gauge_of, settings, reason):
    reading = measured(gauge_of(DeviceStandIn(UUID), **settings))
    assert reading == Reading(None, None, None, None, reading.reason)
    assert reason in reading.reason


def test_a_uuid_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr(nvml, "pynvml", NvmlStandIn(DeviceStandIn(UUID)))
    assert measured(Gauge("GPU-2")).reason == "NVML has no GPU-2: Not Found"


def test_no_thread_outlives_stop(gauge_of):
    gauge = gauge_of(DeviceStandIn(UUID))
    before = threading.active_count()
    gauge.start()
    assert threading.active_count() == before + 1
    gauge.stop()
    assert threading.active_count() == before
