"""Hold what the GPU's road uses of RAPIDS and CuPy against the installed packages; needs no GPU.

`make gpu-imports` runs it, in a virtual environment of its own with the extra `cuda13`.
"""

import ast
import importlib
import importlib.metadata
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
# Module -> the distribution that it comes from.
PACKAGES = {
    "cudf": "cudf-cu13",
    "pylibcudf": "pylibcudf-cu13",
    "rmm": "rmm-cu13",
    "cupy": "cupy-cuda13x",
    "dask_cuda": "dask-cuda",
    "triton": "triton",
    "pynvml": "nvidia-ml-py",
    "nvtx": "nvtx",
    "torch": "torch",
}
ROAD = (
    "kernels.plain_rows.kernel",
    "stages.cudf_frame",
    "stages.cuda_road",
    "stages.device_texts",
    "stages.handover",
    "stages.nvml",
    "stages.text_road",
    "stages.wordpiece",
    "flows.gpu_nanny",
    "flows.worker",
)
# Accessors stand on a class as properties; their methods are found on the class of what they give.
ACCESSORS = {
    "cudf.Series.str": "cudf.core.accessors.string.StringMethods",
    "cudf.Series.list": "cudf.core.accessors.lists.ListMethods",
}
CUPY_STREAMS = "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"
PER_THREAD_STREAM = 2  # CUDA's handle of it (cudaStreamPerThread)
# Who reads an environment variable that the road sets: a name that nobody reads does nothing.
READERS = {
    "CUDF_PER_THREAD_STREAM": "pylibcudf",
    CUPY_STREAMS: "cupy_backends.cuda",
    "KVIKIO_NTHREADS": "libkvikio",
    "PYTORCH_ALLOC_CONF": "torch",
}


def find(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Find what a dotted name stands for: the longest module in it, then attributes."""
    for accessor, kind in ACCESSORS.items():
        if name.startswith(f"{accessor}."):
            name = kind + name.removeprefix(accessor)
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def parameters(found: Any) -> list[str]:  # noqa: ANN401 - as above
    """List a callable's parameters; those of a Cython class are in the stub beside its module."""
    try:
        return list(inspect.signature(found).parameters)
    except ValueError:
        module = Path(str(sys.modules[found.__module__].__file__))
        stub = module.with_name(f"{module.name.partition('.')[0]}.pyi")
        for node in ast.walk(ast.parse(stub.read_text())):
            if isinstance(node, ast.ClassDef) and node.name == found.__name__:
                methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
                (init,) = (part for part in methods if part.name == "__init__")
                return [argument.arg for argument in init.args.args]
        raise


def name_faults(names: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Say which names are missing, or lack a parameter."""
    for name, given in names.items():
        try:
            found = find(name)
        except (ImportError, AttributeError) as error:
            yield f"{name}: {error!r}"
            continue
        lacking = set(given) - set(parameters(found)) if given else set()
        if lacking:
            yield f"{name}: no parameter {sorted(lacking)}"


def environment_faults(environment: dict[str, str]) -> Iterator[str]:
    """Say which environment variables are named in no file of the package that should read them."""
    for name in environment:
        package = importlib.import_module(READERS[name])
        if name == CUPY_STREAMS:  # its compiled names are packed, and it can be asked
            if package.stream.get_default_stream_ptr() != PER_THREAD_STREAM:
                yield f"{name}: CuPy does not heed it"
        elif not any(name.encode() in file.read_bytes() for file in _files(package)):
            yield f"{name}: no file of {READERS[name]} names it"


def _files(package: ModuleType) -> Iterator[Path]:
    folder = Path(str(package.__file__)).parent
    for pattern in ("*.py", "*.pyx", "*.so", "*.so.*"):
        yield from folder.rglob(pattern)


def main() -> int:
    """Import everything, check everything, and print it."""
    from headrace.stages.gpu_setup import GPU_ENVIRONMENT, prepare_environment

    prepare_environment()
    for module, distribution in PACKAGES.items():
        importlib.import_module(module)
        print(f"{module:12} {importlib.metadata.version(distribution)}")
    for module in ROAD:
        importlib.import_module(f"headrace.{module}")
    sys.path.insert(0, str(TESTS))
    from gpu_names import EVERYWHERE, GPU_NAMES

    names = GPU_NAMES | EVERYWHERE
    faults = [*name_faults(names), *environment_faults(GPU_ENVIRONMENT)]
    print(f"{len(names)} names and {len(GPU_ENVIRONMENT)} variables, {len(faults)} faults")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
