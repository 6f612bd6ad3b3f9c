"""`varlen_attention` in Triton: a block of queries against its sequence's keys, block by block.

Online softmax (Milakov & Gimelshein 2018, arXiv 1805.02867) as FlashAttention-2 uses it (Dao 2023,
arXiv 2307.08691): the running sum and the output are rescaled as the maximum grows, and divided
once at the end. Powers of two instead of e: the scale carries log2(e).
"""

import triton
import triton.language as tl


@triton.jit
def varlen_attention_kernel(
    qkv_t3nd,
    edges_b1,
    blocks_k2,
    out_tnd,
    scale_log2,
    heads,
    SIZE: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Program (k, n) writes the queries of block k, head n; all contiguous.

    Fp16 or bf16 in and out (fp32 too), accumulated in fp32. SIZE is the head's true size: 32, 64
    or 128. A block of no sequence writes nothing.
    """
    sequence = tl.load(blocks_k2 + tl.program_id(0) * 2)
    if sequence < 0:
        return
    first = tl.load(blocks_k2 + tl.program_id(0) * 2 + 1)
    start = tl.load(edges_b1 + sequence)
    count = tl.load(edges_b1 + sequence + 1) - start
    head = tl.program_id(1) * SIZE
    token = 3 * heads * SIZE  # from one token's queries to the next one's
    d = tl.arange(0, SIZE)
    m = first + tl.arange(0, QUERIES)
    base = qkv_t3nd + start.to(tl.int64) * token + head  # within a sequence, 32 bits reach
    at_m = m[:, None] * token + d[None, :]
    q = tl.load(base + at_m, mask=m[:, None] < count, other=0.0)
    most = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    acc = tl.zeros([QUERIES, SIZE], tl.float32)
    for begin in range(0, count, KEYS):
        n = begin + tl.arange(0, KEYS)
        at_n = n[:, None] * token + d[None, :]
        k = tl.load(base + heads * SIZE + at_n, mask=n[:, None] < count, other=0.0)
        v = tl.load(base + 2 * heads * SIZE + at_n, mask=n[:, None] < count, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale_log2
        s = tl.where(n[None, :] < count, s, float("-inf"))
        above = tl.maximum(most, tl.max(s, 1))
        p = tl.exp2(s - above[:, None])
        shrink = tl.exp2(most - above)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        most = above
    out = out_tnd + start.to(tl.int64) * (heads * SIZE) + head
    out += m[:, None] * (heads * SIZE) + d[None, :]
    y = acc / total[:, None]
    tl.store(out, y.to(out_tnd.dtype.element_ty), mask=m[:, None] < count)
