"""A stand-in for pynvml: GPUs, MIG instances, calls that a device lacks, and a GPU that gets lost.

It raises pynvml's own errors, and takes what pynvml's functions take.
"""

# ruff: noqa: N802, N803 - the names are NVML's

from types import SimpleNamespace

import pynvml

GIB = 2**30


class DeviceStandIn:
    """One GPU or one MIG instance. Of a list, the answers come one by one."""

    def __init__(self, uuid, name="NVIDIA H200", *, mig=None, cores=range(2), **answers):
        self.uuid, self.name, self.mig, self.cores = uuid, name, mig, cores
        self.answers = {
            "utilization": [0.5],
            "used": [GIB],
            "total": 80 * GIB,
            "free": 64 * GIB,
            "energy_mj": [0],
            "power_mw": [0],
        } | answers
        self.lost = False

    def answer(self, name):
        """Give the next answer of a row of them, and the last one again and again."""
        value = self.answers[name]
        if isinstance(value, list):
            value = value.pop(0) if len(value) > 1 else value[0]
        if self.lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        if isinstance(value, Refusal):
            raise pynvml.NVMLError(value.code)
        return value


class Refusal:
    """An answer that is an error."""

    def __init__(self, code):
        self.code = code


UNSUPPORTED = Refusal(pynvml.NVML_ERROR_NOT_SUPPORTED)


class NvmlStandIn:
    """What headrace takes of the module pynvml."""

    def __init__(self, *devices, init=None):
        self.devices, self.init, self.open = devices, init, 0

    def __getattr__(self, name):
        if name.startswith(("NVMLError", "NVML_")):
            return getattr(pynvml, name)
        raise AttributeError(name)

    def nvmlInit(self):
        if self.init is not None:
            raise pynvml.NVMLError(self.init)
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetCount(self):
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.devices[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        for device in self.devices:
            for one in (device, *(device.mig or ())):
                if one is not None and one.uuid == uuid:
                    return one
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetUUID(self, handle):
        return handle.uuid

    def nvmlDeviceGetName(self, handle):
        return handle.name

    def nvmlDeviceGetMigMode(self, device):
        if device.mig is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [pynvml.NVML_DEVICE_MIG_ENABLE] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, device):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device, index):
        if index >= len(device.mig) or device.mig[index] is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return device.mig[index]

    def nvmlDeviceGetMemoryInfo(self, handle):
        free, total = handle.answer("free"), handle.answer("total")
        return SimpleNamespace(total=total, free=free, used=handle.answer("used"))

    def nvmlDeviceGetCpuAffinity(self, handle, cpuSetSize):
        if isinstance(handle.cores, Refusal):
            raise pynvml.NVMLError(handle.cores.code)
        words = [0] * cpuSetSize
        for core in handle.cores:
            if core < 64 * cpuSetSize:
                words[core // 64] |= 1 << core % 64
        return words

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=round(handle.answer("utilization") * 100))

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        return handle.answer("energy_mj")

    def nvmlDeviceGetPowerUsage(self, handle):
        return handle.answer("power_mw")
