"""`embed_layernorm` in Triton: three look-ups, their sum and its LayerNorm in registers."""

import triton
import triton.language as tl

from headrace.kernels.layernorm import layernorm_row


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
    word = words_vh + tl.load(ids_t + t).to(tl.int64) * width
    place = places_ph + tl.load(positions_t + t).to(tl.int64) * width
    x = tl.load(word + at, mask=there, other=0.0).to(tl.float32)
    x += tl.load(place + at, mask=there, other=0.0).to(tl.float32)
    x += tl.load(kind_h + at, mask=there, other=0.0).to(tl.float32)
    y = layernorm_row(x, there, gain_h, shift_h, width, eps, BLOCK)
    tl.store(out_th + t * width + at, y.to(out_th.dtype.element_ty), mask=there)
