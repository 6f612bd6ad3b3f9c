"""NVRTC, NVIDIA's run-time compiler for CUDA C, as CuPy uses it on a GPU; it needs none.

Its functions are those of https://docs.nvidia.com/cuda/nvrtc/.
"""

import ctypes
import importlib.metadata
from functools import cache

PACKAGE = "nvidia-cuda-nvrtc"


class NvrtcError(Exception):
    """It did not compile; the compiler's own words."""


def compile_cubin(source: str, target: int) -> bytes:
    """Compile CUDA C to machine code for sm_`target`.

    Raises:
        NvrtcError: with the compiler's log.
    """
    library, program = _library(), ctypes.c_void_p()
    options = [f"--gpu-architecture=sm_{target}".encode(), b"--std=c++17"]
    made = library.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None
    )
    _check(made)
    try:
        given = (ctypes.c_char_p * len(options))(*options)
        if library.nvrtcCompileProgram(program, len(options), given):
            raise NvrtcError(_bytes_of(program, "nvrtcGetProgramLog").decode())
        return _bytes_of(program, "nvrtcGetCUBIN")
    finally:
        _check(library.nvrtcDestroyProgram(ctypes.byref(program)))


def _bytes_of(program: ctypes.c_void_p, what: str) -> bytes:
    library, size = _library(), ctypes.c_size_t()
    _check(getattr(library, f"{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library, what)(program, buffer))
    return buffer.raw


def _check(code: int) -> None:
    if code:
        raise NvrtcError(_library().nvrtcGetErrorString(code).decode())


@cache
def _library() -> ctypes.CDLL:
    files = importlib.metadata.distribution(PACKAGE).files or []
    (file,) = (file for file in files if file.name.startswith("libnvrtc.so"))
    library = ctypes.CDLL(str(file.locate()))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library
