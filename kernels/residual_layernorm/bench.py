"""`residual_layernorm` behind one of MiniLM's products."""

from headrace.kernels.case import WIDTH, Case, case, random
from headrace.kernels.residual_layernorm import launch, reference


def make(device: str, tokens: int) -> Case:
    """Reads the product (T, H) and the residual (T, H), and writes their norm."""
    x, residual = (random(device, tokens, WIDTH) for _ in range(2))
    bias, gain, shift = (random(device, WIDTH) for _ in range(3))
    given = (x, bias, residual, gain, shift, 1e-12)
    return case(
        "residual_layernorm", launch.residual_layernorm, reference.residual_layernorm, given
    )
