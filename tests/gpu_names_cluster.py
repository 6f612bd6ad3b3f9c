"""The names of GPU packages that the cluster, the gauge and the spans use, with their parameters.

Stand-ins take their place in the tests; this table is what holds those to the installed packages.
"""

_HANDLE = ("handle",)

GPU_NAMES = {
    "dask_cuda.plugins.CPUAffinity": ("cores",),
    "dask_cuda.plugins.CUDFSetup": ("spill", "spill_stats"),
    "dask_cuda.plugins.RMMSetup": (
        "initial_pool_size",
        "maximum_pool_size",
        "managed_memory",
        "async_alloc",
        "release_threshold",
        "log_directory",
        "track_allocations",
        "external_lib_list",
    ),
    "nvtx.get_domain": ("name",),
    "nvtx.Domain.get_event_attributes": ("self", "message"),
    "nvtx.Domain.pop_range": ("self",),
    "nvtx.Domain.push_range": ("self", "attributes"),
    "pynvml.nvmlInit": (),
    "pynvml.nvmlShutdown": (),
    "pynvml.nvmlDeviceGetCount": (),
    "pynvml.nvmlDeviceGetHandleByIndex": ("index",),
    "pynvml.nvmlDeviceGetHandleByUUID": ("uuid",),
    "pynvml.nvmlDeviceGetUUID": _HANDLE,
    "pynvml.nvmlDeviceGetName": _HANDLE,
    "pynvml.nvmlDeviceGetMigMode": ("device",),
    "pynvml.nvmlDeviceGetMaxMigDeviceCount": ("device",),
    "pynvml.nvmlDeviceGetMigDeviceHandleByIndex": ("device", "index"),
    "pynvml.nvmlDeviceGetMemoryInfo": _HANDLE,
    "pynvml.nvmlDeviceGetCpuAffinity": ("handle", "cpuSetSize"),
    "pynvml.nvmlDeviceGetUtilizationRates": _HANDLE,
    "pynvml.nvmlDeviceGetTotalEnergyConsumption": _HANDLE,
    "pynvml.nvmlDeviceGetPowerUsage": _HANDLE,
    "pynvml.NVMLError": (),
    "pynvml.NVMLError_DriverNotLoaded": (),
    "pynvml.NVMLError_FunctionNotFound": (),
    "pynvml.NVMLError_InvalidArgument": (),
    "pynvml.NVMLError_LibraryNotFound": (),
    "pynvml.NVMLError_NotFound": (),
    "pynvml.NVMLError_NotSupported": (),
    "pynvml.NVMLError_Unknown": (),
    "pynvml.NVML_DEVICE_MIG_ENABLE": (),
}
