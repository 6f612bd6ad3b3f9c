"""`varlen_attention` of MiniLM: 12 heads of 32, sequences of 128 tokens."""

import numpy as np
import torch

from headrace.kernels.case import HEADS, LENGTH, WIDTH, Case, case, random
from headrace.kernels.varlen_attention import launch, reference


def make(device: str, tokens: int) -> Case:
    """Reads queries, keys and values (T, 3 H), and writes (T, H).

    FLOP: two products of (L, D) and (D, L) for each head of each sequence, 2 L^2 D each.
    """
    rows = tokens // LENGTH
    qkv = random(device, tokens, 3, HEADS, WIDTH // HEADS)
    edges = torch.arange(0, tokens + 1, LENGTH, device=device, dtype=torch.int32)
    blocks = launch.query_blocks(np.full(rows, LENGTH), launch.most_blocks(tokens, rows))
    return case(
        "varlen_attention",
        launch.varlen_attention,
        reference.varlen_attention,
        (qkv, edges, torch.from_numpy(blocks).to(device)),
        flop=4 * rows * LENGTH**2 * WIDTH,
    )
