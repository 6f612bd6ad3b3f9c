"""The readable truth of `varlen_attention`."""

from itertools import pairwise

import torch


def varlen_attention(
    qkv_t3nd: torch.Tensor, edges_b1: torch.Tensor, blocks_k2: torch.Tensor
) -> torch.Tensor:
    """Attend, in each of several packed sequences, from every token to every token of its own.

    softmax(Q K^T / sqrt(D)) V (Vaswani et al. 2017, arXiv 1706.03762), without a mask.

    Args:
        qkv_t3nd: (T, 3, N, D), queries, keys and values of N heads, of any float dtype.
        edges_b1: (B + 1,) int32, where each sequence begins, and the end of the last. Sequences
            may be empty. Tokens behind the last edge belong to none.
        blocks_k2: (K, 2) int32, the work in blocks of `QUERIES` tokens (launch.py): a sequence,
            and its token that the block begins with; -1 for none. Only kernels need it.

    Returns:
        (T, N * D) of the dtype of `qkv_t3nd`, computed in float32; zeros where there is no
        sequence.
    """
    del blocks_k2
    tokens, _, heads, size = qkv_t3nd.shape
    out = torch.zeros((tokens, heads, size), dtype=torch.float32, device=qkv_t3nd.device)
    for start, end in pairwise(edges_b1.tolist()):
        if start < end:
            query, key, value = qkv_t3nd[start:end].float().permute(1, 2, 0, 3)
            scores = query @ key.transpose(1, 2) * size**-0.5
            out[start:end] = (scores.softmax(-1) @ value).transpose(0, 1)
    return out.reshape(tokens, heads * size).to(qkv_t3nd.dtype)
