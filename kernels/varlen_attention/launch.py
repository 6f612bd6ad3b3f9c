"""`varlen_attention` by the way that fits."""

import math

import numpy as np
import numpy.typing as npt
import torch

from headrace.kernels.choice import takes_triton
from headrace.kernels.varlen_attention import reference

QUERIES, KEYS = 64, 64  # of a block
# Warps by the size of a head: what fits the registers without spilling (scripts/kernel_code.py).
WARPS = {32: 4, 64: 4, 128: 8}


def varlen_attention(
    qkv_t3nd: torch.Tensor, edges_b1: torch.Tensor, blocks_k2: torch.Tensor
) -> torch.Tensor:
    """See reference.py. The kernel takes contiguous tensors and heads of 32, 64 or 128."""
    tokens, _, heads, size = qkv_t3nd.shape
    fits = (
        tokens > 0
        and blocks_k2.numel() > 0
        and size in WARPS
        and blocks_k2.is_contiguous()
        and qkv_t3nd.is_contiguous()
        and qkv_t3nd.dtype != torch.float64
    )
    if not takes_triton("varlen_attention", qkv_t3nd, fits=fits):
        return reference.varlen_attention(qkv_t3nd, edges_b1, blocks_k2)
    from headrace.kernels.varlen_attention.kernel import varlen_attention_kernel

    shape = (tokens, heads * size)
    out = torch.zeros(shape, dtype=qkv_t3nd.dtype, device=qkv_t3nd.device)
    varlen_attention_kernel[(blocks_k2.shape[0], heads)](
        qkv_t3nd,
        edges_b1,
        blocks_k2,
        out,
        math.log2(math.e) / math.sqrt(size),
        heads,
        SIZE=size,
        QUERIES=QUERIES,
        KEYS=KEYS,
        num_warps=WARPS[size],
    )
    return out


def query_blocks(counts_b: npt.NDArray[np.int64], blocks: int) -> npt.NDArray[np.int32]:
    """List the blocks of queries of sequences of so many tokens, on the host.

    Args:
        counts_b: (B,) tokens of each sequence.
        blocks: K, how many blocks there may be; `most_blocks` is enough.

    Returns:
        (K, 2) int32: sequence and first token, -1 behind the last block.
    """
    each = -(-counts_b // QUERIES)
    sequence = np.repeat(np.arange(counts_b.size), each)
    first = (np.arange(sequence.size) - np.repeat(np.cumsum(each) - each, each)) * QUERIES
    listed = np.full((blocks, 2), -1, np.int32)
    listed[: sequence.size] = np.stack([sequence, first], 1)
    return listed


def most_blocks(tokens: int, sequences: int) -> int:
    """Tell how many blocks some sequences can have that share so many tokens."""
    return tokens // QUERIES + sequences
