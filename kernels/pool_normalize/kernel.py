"""`pool_normalize` in Triton: hidden states to one vector a row, in one pass over them.

A program takes a row: its tokens' values are summed (or the largest kept, or one of them taken) in
registers, cut, scaled and cast there, and written once. Padded and packed layouts differ only in
where a row begins.
"""

import triton
import triton.language as tl

MEAN, FIRST_TOKEN, LAST_TOKEN, MAX = (tl.constexpr(at) for at in range(4))
MIN_NORM = tl.constexpr(1e-12)  # torch.nn.functional.normalize's floor


@triton.jit
def pool_normalize_kernel(
    hidden_th,
    starts_b,
    counts_b,
    out_bw,
    finite_b,
    stride,
    width,
    POOLING: tl.constexpr,
    NORMALIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write row b: `width` values of (B, W) and its flag.

    `hidden_th` (T, H) has rows `stride` apart; the row's tokens are `counts_b` of them from
    `starts_b` on (int64). A row without a token is zeros.
    """
    b = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    there = at < width
    count = tl.load(counts_b + b)
    token = hidden_th + tl.load(starts_b + b) * stride + at
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
        value = tl.load(token + last * stride, mask=there & (at * 0 + count > 0), other=0.0)
        value = value.to(tl.float32)
    value = tl.where(there & (at * 0 + count > 0), value, 0.0)
    odd_norm = 0.0
    if NORMALIZE:
        norm = tl.sqrt(tl.sum(value * value))
        odd_norm = norm * 0.0  # NaN where the squares overflow
        value = value / tl.maximum(norm, MIN_NORM)
    cast = value.to(out_bw.dtype.element_ty)
    wrong = tl.sum(tl.abs(cast.to(tl.float32)) * 0.0) + odd_norm
    tl.store(out_bw + b * width + at, cast, mask=there)
    tl.store(finite_b + b, wrong == 0.0)
