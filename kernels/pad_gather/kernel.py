"""`pad_gather` in Triton: one launch, each output element written once."""

import triton
import triton.language as tl


@triton.jit
def pad_gather_kernel(
    ids_t,
    starts_n,
    counts_n,
    rows_b,
    before_p,
    behind_s,
    ids_bl,
    mask_bl,
    length,
    pad_id,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Lay out one piece of one row: program (b, j) writes columns j * BLOCK and on of row b.

    `ids_bl` and `mask_bl` are (B, L) contiguous int64; see reference.py for the others. FIRST and
    LAST are how many special tokens stand before and behind a row.
    """
    b = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(rows_b + b)
    some = tl.maximum(row, 0)
    start = tl.load(starts_n + some)
    end = FIRST + tl.minimum(tl.load(counts_n + some), length - FIRST - LAST)
    # A block of one value: the interpreter does not take a single bool beside a block of them.
    real = (tl.zeros([BLOCK], tl.int64) + row >= 0) & (column < end + LAST)
    own = real & (column >= FIRST) & (column < end)
    ids = tl.load(ids_t + start + column - FIRST, mask=own, other=0).to(tl.int64)
    ids = tl.where(real, ids, pad_id)
    if FIRST > 0:
        head = real & (column < FIRST)
        ids = tl.where(head, tl.load(before_p + column, mask=head, other=0), ids)
    if LAST > 0:
        tail = real & (column >= end)
        ids = tl.where(tail, tl.load(behind_s + column - end, mask=tail, other=0), ids)
    there = column < length
    tl.store(ids_bl + b * length + column, ids, mask=there)
    tl.store(mask_bl + b * length + column, real.to(tl.int64), mask=there)
