"""A nanny whose worker has one GPU to itself, and dask-cuda's plugins where it is installed.

It is made from plain JSON, in a process of its own.
"""

import os
import traceback
from collections.abc import Sequence
from typing import Any

from distributed import WorkerPlugin

from headrace.flows.shield import ShieldedNanny
from headrace.stages.gpu_setup import gpu_environment, pool_bytes

# As dask-cuda sets it: no context before the plugins are there.
NO_CONTEXT = {"RAPIDS_NO_INITIALIZE": "True"}


class GpuNanny(ShieldedNanny):
    """Sets the environment of its worker before the worker's process exists."""

    def __init__(
        self,
        *args: object,
        gpu: str,
        cores: Sequence[int],
        free_bytes: int | None,
        rapids: bool,
        env: dict[str, str],
        **kwargs: Any,  # noqa: ANN401 - Dask's own
    ) -> None:
        """Take the GPU.

        Args:
            args: Dask's own.
            gpu: its UUID.
            cores: those near it; empty where they are not known.
            free_bytes: of its memory; None where it has none of its own.
            rapids: whether dask-cuda is here, and is to set the worker up.
            env: of the worker, beside what a GPU needs.
            kwargs: Dask's own.
        """
        env = env | NO_CONTEXT | gpu_environment() | {"CUDA_VISIBLE_DEVICES": gpu}
        # CUDA's libraries read theirs when they are imported, and a worker imports some with its
        # plugins, before Dask sets the environment in its process.
        os.environ.update(env)
        plugins = _plugins(cores, free_bytes) if rapids else []
        super().__init__(*args, env=env, plugins=[InOrder(plugins)], **kwargs)


class InOrder(WorkerPlugin):  # type: ignore[misc] # Dask ships no types
    """Several plugins as one: each is set up after the one before it, and its failure is said."""

    def __init__(self, plugins: list[Any]) -> None:
        """Take the plugins."""
        self.plugins = plugins

    def setup(self, worker: object) -> None:
        """Set them up. Dask tells a nanny that its worker failed, but not of what."""
        for plugin in self.plugins:
            try:
                plugin.setup(worker)
            except Exception:
                traceback.print_exc()
                raise


def _plugins(cores: Sequence[int], free_bytes: int | None) -> list[Any]:
    """Make the worker's plugins, in their order: cuDF uses the pool that it finds.

    Nothing spills. cuDF's spilling takes memory from under a column that another thread has handed
    to pylibcudf (26.10); what there is no room for, the host does. Dask-CUDA's own limit of device
    memory is off, too.
    """
    from dask_cuda.plugins import CPUAffinity, CUDFSetup, RMMSetup

    plugins: list[Any] = [CPUAffinity(cores=list(cores))] if cores else []
    if free_bytes is not None:
        initial, most = pool_bytes(free_bytes)
        pool = RMMSetup(
            initial_pool_size=initial,
            maximum_pool_size=most,
            managed_memory=False,
            async_alloc=False,
            release_threshold=None,
            log_directory=None,
            track_allocations=False,
            external_lib_list=None,  # torch keeps its own allocator
        )
        plugins.append(pool)
    plugins.append(CUDFSetup(spill=False, spill_stats=0))
    return plugins
