"""`residual_layernorm` in Triton: a row is read once, kept in registers, and written once."""

import triton
import triton.language as tl

from headrace.kernels.layernorm import layernorm_row


@triton.jit
def residual_layernorm_kernel(
    x_th,
    bias_h,
    residual_th,
    gain_h,
    shift_h,
    out_th,
    width,
    eps,
    BLOCK: tl.constexpr,
):
    """Write one row of `width` values, at most BLOCK; all contiguous."""
    row = tl.program_id(0).to(tl.int64) * width
    at = tl.arange(0, BLOCK)
    there = at < width
    x = tl.load(x_th + row + at, mask=there, other=0.0).to(tl.float32)
    x += tl.load(bias_h + at, mask=there, other=0.0).to(tl.float32)
    x += tl.load(residual_th + row + at, mask=there, other=0.0).to(tl.float32)
    y = layernorm_row(x, there, gain_h, shift_h, width, eps, BLOCK)
    tl.store(out_th + row + at, y.to(out_th.dtype.element_ty), mask=there)
