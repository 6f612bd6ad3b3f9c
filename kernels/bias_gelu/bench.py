"""`bias_gelu` on the states between the two products of MiniLM's feed-forward part."""

from headrace.kernels.bias_gelu import launch, reference
from headrace.kernels.case import WIDTH, Case, case, random


def make(device: str, tokens: int) -> Case:
    """Reads (T, 4 H) and writes as much."""
    given = (random(device, tokens, 4 * WIDTH), random(device, 4 * WIDTH))
    return case("bias_gelu", launch.bias_gelu, reference.bias_gelu, given)
