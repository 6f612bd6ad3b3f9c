"""`varlen_attention` by the way that fits."""

import math

import torch

from headrace.kernels.choice import takes_triton
from headrace.kernels.varlen_attention import reference

# Blocks of queries and keys, and warps, by the size of a head: what fits the registers without
# spilling (scripts/kernel_code.py).
PLANS = {32: (64, 64, 4), 64: (64, 64, 4), 128: (64, 64, 8)}


def varlen_attention(qkv_t3nd: torch.Tensor, edges_b1: torch.Tensor, longest: int) -> torch.Tensor:
    """See reference.py. The kernel takes contiguous tensors and heads of 32, 64 or 128."""
    tokens, _, heads, size = qkv_t3nd.shape
    sequences = edges_b1.numel() - 1
    fits = (
        tokens > 0
        and sequences > 0
        and longest > 0
        and size in PLANS
        and qkv_t3nd.is_contiguous()
        and qkv_t3nd.dtype != torch.float64
    )
    if not takes_triton("varlen_attention", qkv_t3nd, fits=fits):
        return reference.varlen_attention(qkv_t3nd, edges_b1, longest)
    from headrace.kernels.varlen_attention.kernel import varlen_attention_kernel

    shape = (tokens, heads * size)
    out = torch.zeros(shape, dtype=qkv_t3nd.dtype, device=qkv_t3nd.device)
    queries, keys, warps = PLANS[size]
    varlen_attention_kernel[(-(-longest // queries), sequences, heads)](
        qkv_t3nd,
        edges_b1,
        out,
        math.log2(math.e) / math.sqrt(size),
        heads,
        SIZE=size,
        QUERIES=queries,
        KEYS=keys,
        num_warps=warps,
    )
    return out
