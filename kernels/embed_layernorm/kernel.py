"""`embed_layernorm` in Triton: three look-ups, their sum and its LayerNorm in registers.

As residual_layernorm/kernel.py: mean first, then the mean of the squared differences.
"""

import triton
import triton.language as tl


@triton.jit
def embed_layernorm_kernel(
    ids_t,
    positions_t,
    words_vh,
    places_ph,
    kind_h,
    gain_h,
    shift_h,
    out_th,
    width,
    eps,
    BLOCK: tl.constexpr,
):
    """Write the row of one token, of `width` values, at most BLOCK; all contiguous."""
    t = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    there = at < width
    word = words_vh + tl.load(ids_t + t) * width
    place = places_ph + tl.load(positions_t + t) * width
    x = tl.load(word + at, mask=there, other=0.0).to(tl.float32)
    x += tl.load(place + at, mask=there, other=0.0).to(tl.float32)
    x += tl.load(kind_h + at, mask=there, other=0.0).to(tl.float32)
    mean = tl.sum(x) / width
    off = tl.where(there, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(off * off) / width + eps)
    gain = tl.load(gain_h + at, mask=there, other=0.0).to(tl.float32)
    shift = tl.load(shift_h + at, mask=there, other=0.0).to(tl.float32)
    y = off * scale * gain + shift
    tl.store(out_th + t * width + at, y.to(out_th.dtype.element_ty), mask=there)
