"""Which processor a job runs on, and what it multiplies natively."""

import torch

from headrace.schemas.errors import JobError


def choose_device(wanted: str) -> str:
    """Resolve `compute.device` on this machine.

    Raises:
        JobError: cuda was asked for, and torch finds no GPU.
    """
    has_gpu = torch.cuda.is_available()
    if wanted == "cuda" and not has_gpu:
        msg = (
            "compute.device: expected a CUDA GPU that torch can use, got none on this machine. "
            "Use device: auto or cpu, or see `headrace doctor`."
        )
        raise JobError(msg)
    return "cuda" if has_gpu and wanted != "cpu" else "cpu"


def multiplies_bf16(device: str) -> bool:
    """Ask the processor whether it multiplies bf16 natively."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    flags = torch.cpu.get_capabilities()
    return any(bool(flags.get(name)) for name in ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16"))
