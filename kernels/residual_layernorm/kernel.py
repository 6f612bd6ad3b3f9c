"""`residual_layernorm` in Triton: a row is read once, kept in registers, and written once.

Mean first, then the mean of the squared differences (Ba et al. 2016, arXiv 1607.06450): in one
pass, the difference of two large sums would lose what it should tell.
"""

import triton
import triton.language as tl


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
    mean = tl.sum(x) / width
    off = tl.where(there, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(off * off) / width + eps)
    gain = tl.load(gain_h + at, mask=there, other=0.0).to(tl.float32)
    shift = tl.load(shift_h + at, mask=there, other=0.0).to(tl.float32)
    y = off * scale * gain + shift
    tl.store(out_th + row + at, y.to(out_th.dtype.element_ty), mask=there)
