"""`softmax_topk` in Triton: one program a row, whatever the number of classes.

The row's maximum and sum are gathered block by block, the sum rescaled as the maximum grows
(Milakov & Gimelshein 2018, "Online normalizer calculation for softmax", arXiv 1805.02867). The k
best follow one after the other: each is the largest score below the one before it, of equal ones
the lowest class. That reads the row k + 1 times, from cache, and keeps nothing but two numbers.
"""

import triton
import triton.language as tl


@triton.jit
def softmax_topk_kernel(
    logits_bc,
    scores_bk,
    classes_bk,
    finite_b,
    classes,
    stride,
    K: tl.constexpr,
    SIGMOID: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the K best of `classes` logits of row b, of any float dtype, `stride` apart.

    `scores_bk` float32, `classes_bk` int64, `finite_b` bool: contiguous.
    """
    b = tl.program_id(0).to(tl.int64)
    row = logits_bc + b * stride
    most = tl.full([], float("-inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    odd = tl.full([], 0, tl.int32)
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(row + at, mask=at < classes, other=float("-inf")).to(tl.float32)
        wrong = (at < classes) & ((x != x) | (tl.abs(x) == float("inf")))
        odd += tl.sum(wrong.to(tl.int32))
        above = tl.maximum(most, tl.max(tl.where(x == x, x, float("-inf"))))
        safe = tl.where(above == float("-inf"), 0.0, above)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(x - safe))
        most = above
    tl.store(finite_b + b, odd == 0)
    last = tl.full([], float("inf"), tl.float32)
    last_class = tl.full([], -1, tl.int64)
    for k in range(K):
        best = tl.full([], float("-inf"), tl.float32)
        best_class = tl.full([], 0, tl.int64)
        found = tl.full([], 0, tl.int32)
        for start in range(0, classes, BLOCK):
            at = start + tl.arange(0, BLOCK)
            x = tl.load(row + at, mask=at < classes, other=float("-inf")).to(tl.float32)
            score = tl.sigmoid(x) if SIGMOID else tl.exp(x - most) / total
            left = (at < classes) & ((score < last) | ((score == last) & (at > last_class)))
            here = tl.max(tl.where(left, score, float("-inf")))
            first = tl.min(tl.where(left & (score == here), at, classes))
            better = tl.where(found == 0, first < classes, here > best)
            best = tl.where(better, here, best)
            best_class = tl.where(better, first.to(tl.int64), best_class)
            found = tl.where(first < classes, 1, found)
        tl.store(scores_bk + b * K + k, best)
        tl.store(classes_bk + b * K + k, best_class)
        last, last_class = best, best_class
