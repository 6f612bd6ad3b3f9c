"""A scheduler's first preload: it does not ask NVML, nor do its workers.

Dask asks for every process, and dies of a driver in disorder and of CUDA_VISIBLE_DEVICES=-1, even
where no GPU is wanted. We measure our GPUs ourselves (stages/nvml.py).
"""

import dask

from headrace.flows.shield import NO_NVML

dask.config.set(NO_NVML)
