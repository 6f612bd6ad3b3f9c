"""`pack_gather` in Triton: one launch; each output element is written once.

A block of tokens finds the rows that they belong to by a binary search in the rows' edges, which
stay in cache: log2(B) look-ups a token, and no launch depends on how long rows are.
"""

import triton
import triton.language as tl


@triton.jit
def pack_gather_kernel(
    ids_t,
    starts_n,
    rows_b,
    edges_b1,
    before_p,
    behind_s,
    ids_k,
    places_k,
    tokens,
    rows,
    pad_id,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write tokens i * BLOCK and on of the pack.

    `ids_k` and `places_k` are (K,) int32; see reference.py for the others. FIRST and LAST are how
    many special tokens stand before and behind a row, 2 ** STEPS is above the number of rows.
    """
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = at < tokens
    here = there & (at < tl.load(edges_b1 + rows))
    low = tl.zeros([BLOCK], tl.int32)  # the row is in low .. high - 1
    high = low + rows
    for _ in range(STEPS):
        middle = (low + high) // 2
        above = tl.load(edges_b1 + middle, mask=here, other=0) > at
        high = tl.where(above, middle, high)
        low = tl.where(above, low, middle)
    start = tl.load(edges_b1 + low, mask=here, other=0)
    column = at - start
    end = tl.load(edges_b1 + low + 1, mask=here, other=0) - start - LAST
    own = here & (column >= FIRST) & (column < end)
    row = tl.load(rows_b + low, mask=own, other=0)
    source = tl.load(starts_n + row, mask=own, other=0) + column - FIRST
    ids = tl.load(ids_t + source, mask=own, other=0)
    ids = tl.where(here, ids, pad_id)
    if FIRST > 0:
        head = here & (column < FIRST)
        ids = tl.where(head, tl.load(before_p + column, mask=head, other=0).to(tl.int32), ids)
    if LAST > 0:
        tail = here & (column >= end)
        ids = tl.where(tail, tl.load(behind_s + column - end, mask=tail, other=0).to(tl.int32), ids)
    tl.store(ids_k + at, ids, mask=there)
    tl.store(places_k + at, tl.where(here, column, 0), mask=there)
