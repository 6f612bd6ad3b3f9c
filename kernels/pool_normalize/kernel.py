"""`pool_normalize` in Triton: hidden states to one vector a row, in one pass over them.

A program takes a row: its tokens' values are summed (or the largest kept, or one of them taken) in
registers, cut, scaled and cast there, and written once.
"""

import triton
import triton.language as tl

MEAN, FIRST_TOKEN, LAST_TOKEN, MAX = (tl.constexpr(at) for at in range(4))
FLOAT, INT8, BINARY = (tl.constexpr(at) for at in range(3))
# As reference.py has them.
MIN_NORM, MIN_SCALE, LARGEST_INT8 = (tl.constexpr(at) for at in (1e-12, 1e-30, 127.0))


@triton.jit
def pool_normalize_kernel(
    hidden_th,
    starts_b,
    ends_b,
    out_bw,
    finite_b,
    scales_b,
    stride,
    width,
    POOLING: tl.constexpr,
    NORMALIZE: tl.constexpr,
    FORM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write row b: `width` values of (B, W), or their bits, its flag, and its scale for INT8.

    The row's tokens are from `starts_b` to `ends_b` of `hidden_th` (T, H), `stride` apart.
    """
    b = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    there = at < width
    start = tl.load(starts_b + b).to(tl.int64)
    count = (tl.load(ends_b + b).to(tl.int64) - start).to(tl.int32)
    token = hidden_th + start * stride + at
    some = there & (at * 0 + count > 0)
    if POOLING == MEAN or POOLING == MAX:
        value = tl.full([BLOCK], float("-inf") if POOLING == MAX else 0.0, tl.float32)
        odd = tl.zeros([BLOCK], tl.float32)
        for t in range(count):
            x = tl.load(token + t * stride, mask=there, other=0.0).to(tl.float32)
            odd += x * 0.0  # NaN where x is no number, which a maximum would pass over
            value = tl.maximum(value, x) if POOLING == MAX else value + x
        value = value + odd if POOLING == MAX else value / tl.maximum(count, 1).to(tl.float32)
    else:
        last = tl.maximum(count - 1, 0) if POOLING == LAST_TOKEN else count * 0
        value = tl.load(token + last * stride, mask=some, other=0.0).to(tl.float32)
    value = tl.where(some, value, 0.0)
    wrong = 0.0
    if NORMALIZE:
        norm = tl.sqrt(tl.sum(value * value))
        wrong = norm * 0.0  # NaN where the squares overflow
        value = value / tl.maximum(norm, MIN_NORM)
    value = _written(value, out_bw, scales_b, b, at, width, FORM, BLOCK)
    wrong += tl.sum(tl.abs(value.to(tl.float32)) * 0.0)
    tl.store(finite_b + b, wrong == 0.0)


@triton.jit
def _written(value, out_bw, scales_b, b, at, width, FORM: tl.constexpr, BLOCK: tl.constexpr):
    """Write a row's float32 values in their form; return them as they are then judged."""
    if FORM == FLOAT:
        value = value.to(out_bw.dtype.element_ty)
        tl.store(out_bw + b * width + at, value, mask=at < width)
    elif FORM == INT8:
        scale = tl.max(tl.abs(value)) / LARGEST_INT8
        whole = tl.floor(value / tl.maximum(scale, MIN_SCALE) + 0.5)
        tl.store(out_bw + b * width + at, whole.to(tl.int8), mask=at < width)
        tl.store(scales_b + b, scale)
    else:
        bits = tl.where(value > 0.0, 1, 0).reshape([BLOCK // 8, 8])
        bits = tl.sum(bits << (7 - tl.arange(0, 8)[None, :]), 1).to(tl.uint8)
        byte, size = tl.arange(0, BLOCK // 8), (width + 7) // 8
        tl.store(out_bw + b * size + byte, bits, mask=byte < size)
    return value
