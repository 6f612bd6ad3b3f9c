"""What kernels that end in a LayerNorm share.

Mean first, then the mean of the squared differences (Ba et al. 2016, arXiv 1607.06450): in one
pass, the difference of two large sums would lose what it should tell.
"""

import triton
import triton.language as tl


@triton.jit
def layernorm_row(x, there, gain_h, shift_h, width, eps, BLOCK: tl.constexpr):
    """Normalise one row of `width` float32 values, zero where not `there`, in registers."""
    at = tl.arange(0, BLOCK)
    mean = tl.sum(x) / width
    off = tl.where(there, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(off * off) / width + eps)
    gain = tl.load(gain_h + at, mask=there, other=0.0).to(tl.float32)
    shift = tl.load(shift_h + at, mask=there, other=0.0).to(tl.float32)
    return off * scale * gain + shift
