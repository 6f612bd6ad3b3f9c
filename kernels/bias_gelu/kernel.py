"""`bias_gelu` in Triton: each element is read once and written once.

GELU is x * Phi(x) (Hendrycks & Gimpel 2016, arXiv 1606.08415). tanh(u) is 2 * sigmoid(2u) - 1, so
the paper's approximation 0.5 x (1 + tanh(u)) is x * sigmoid(2u).
"""

import triton
import triton.language as tl

SQRT_HALF = tl.constexpr(0.7071067811865476)
SQRT_8_BY_PI = tl.constexpr(1.5957691216057308)
CUBIC = tl.constexpr(0.044715)


@triton.jit
def bias_gelu_kernel(
    x_th,
    bias_h,
    out_th,
    elements,
    width,
    TANH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write BLOCK elements of the flat (T, H) array; all contiguous."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < elements
    x = tl.load(x_th + at, mask=there, other=0.0).to(tl.float32)
    x += tl.load(bias_h + at % width, mask=there, other=0.0).to(tl.float32)
    if TANH:
        y = x * tl.sigmoid((x + x * x * x * CUBIC) * SQRT_8_BY_PI)
    else:
        y = x * 0.5 * (tl.erf(x * SQRT_HALF) + 1.0)
    tl.store(out_th + at, y.to(out_th.dtype.element_ty), mask=there)
