"""What one GPU did while a shard held it, asked of NVML alone: no CUDA context, and no torch."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

PERIOD_S = 0.1
MJ_PER_WH = 3_600_000.0
MW_PER_W = 1_000.0
S_PER_H = 3_600.0
SAMPLED = ("utilization", "memory", "power")

# What a device or a driver does not have: old drivers lack the function, and the only argument is
# a handle that NVML made itself, of a MIG instance where it is none for that question.
UNSUPPORTED = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_InvalidArgument,
)


@dataclass(frozen=True)
class Reading:
    """What was measured between `start` and `stop`; None where the device can't tell."""

    utilization: float | None  # 0 to 1, the mean of the samples
    peak_memory_bytes: int | None  # used on the device, by whomever
    energy_wh: float | None
    power_w: float | None  # the mean
    reason: str | None = None  # why NVML told less than this device could


class Gauge:
    """Measures one device again and again. A question that the device can't answer is asked once.

    A thread of its own samples it, and ends with `stop`.
    """

    def __init__(self, uuid: str) -> None:
        """Look for the device. Without it, every reading is None and says why.

        Args:
            uuid: of a GPU (GPU-…) or of a MIG instance (MIG-…).
        """
        self._reason: str | None = None
        self._questions: dict[str, Callable[[], float]] = {}
        try:
            pynvml.nvmlInit()
            self._questions = _questions(pynvml.nvmlDeviceGetHandleByUUID(uuid))
        except pynvml.NVMLError as error:
            self._reason = f"NVML has no {uuid}: {error}"

    def start(self) -> None:
        """Begin to measure."""
        self._stopped = threading.Event()
        self._start_s = time.perf_counter()
        self._start_mj = self._ask("energy")
        # Power only stands in for the device's own count of energy.
        names = [name for name in SAMPLED if name != "power" or self._start_mj is None]
        self._samples: dict[str, list[float]] = {name: [] for name in names}
        self._thread = threading.Thread(target=self._watch, name="nvml", daemon=True)
        self._thread.start()

    def stop(self) -> Reading:
        """Stop measuring, and say what was measured since `start`."""
        self._stopped.set()
        self._thread.join()
        self._sample()  # so that the shortest shard has one
        hours = (time.perf_counter() - self._start_s) / S_PER_H
        energy_wh, power_w = self._energy(hours)
        utilization, memory = self._of("utilization"), self._of("memory")
        return Reading(
            utilization=_mean(utilization) if utilization else None,
            peak_memory_bytes=int(max(memory)) if memory else None,
            energy_wh=energy_wh,
            power_w=power_w,
            reason=self._reason,
        )

    def _energy(self, hours: float) -> tuple[float | None, float | None]:
        """Energy and mean power: the device's own count, or else samples of its power."""
        end_mj = self._ask("energy")
        if self._start_mj is not None and end_mj is not None:
            energy_wh = (end_mj - self._start_mj) / MJ_PER_WH
            return energy_wh, energy_wh / hours
        samples_mw = self._of("power")
        if not samples_mw:
            return None, None
        power_w = _mean(samples_mw) / MW_PER_W
        return power_w * hours, power_w

    def _watch(self) -> None:
        while not self._stopped.wait(PERIOD_S):
            self._sample()

    def _sample(self) -> None:
        for name, samples in self._samples.items():
            value = self._ask(name)
            if value is not None:
                samples.append(value)

    def _ask(self, name: str) -> float | None:
        """Answer one question; None once it could not be answered."""
        ask = self._questions.get(name)
        if ask is None:
            return None
        try:
            return ask()
        except pynvml.NVMLError as error:
            del self._questions[name]
            if not isinstance(error, UNSUPPORTED):
                self._reason = self._reason or f"NVML lost its {name}: {error}"
            return None

    def _of(self, name: str) -> list[float]:
        """Take the samples of a question, unless its answers broke off."""
        return self._samples.get(name, []) if name in self._questions else []


def _questions(handle: Any) -> dict[str, Callable[[], float]]:  # noqa: ANN401 - a C pointer
    return {
        "utilization": lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100.0,
        "memory": lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used,
        "energy": lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle),
        "power": lambda: pynvml.nvmlDeviceGetPowerUsage(handle),
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
