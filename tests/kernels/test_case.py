"""What the benchmarks count, against the tensors themselves."""

import importlib
from pathlib import Path

import pytest
import torch

from headrace.kernels.case import CLASSES, GATHERED, LENGTH, WIDTH

ROOT = Path(__file__).parents[2]
OPS = sorted(file.parent.name for file in ROOT.glob("kernels/*/reference.py"))
TOKENS = 256
ROWS = TOKENS // LENGTH
MANY = GATHERED * TOKENS
HALF, INT, LONG = 2, 4, 8
STATES = TOKENS * WIDTH * HALF
# Each input read once and each output written once, by hand.
BYTES = {
    "bias_gelu": 2 * 4 * STATES + 4 * WIDTH * HALF,
    "residual_layernorm": 3 * STATES + 3 * WIDTH * HALF,
    "embed_layernorm": 2 * TOKENS * INT + 2 * STATES + (LENGTH + 3) * WIDTH * HALF,
    "softmax_topk": TOKENS * (CLASSES * HALF + INT + LONG + 1),
    "pool_normalize": STATES + ROWS * (2 * INT + WIDTH * 4 + 1),
    "varlen_attention": 4 * STATES + (ROWS + 1) * INT + (TOKENS // 64 + ROWS) * 2 * INT,
    "pad_gather": MANY // LENGTH * ((LENGTH - 2) * INT + 3 * LONG + LENGTH * 2 * LONG) + 2 * LONG,
    "pack_gather": MANY // LENGTH * ((LENGTH - 2) * INT + 2 * LONG + INT + LENGTH * 2 * INT)
    + INT
    + 2 * LONG,
    "plain_rows": MANY + (MANY // 256 + 1) * LONG + MANY // 256,
}


@pytest.mark.parametrize("op", OPS)
def test_a_benchmark_counts_what_its_op_must_move(op):
    case = importlib.import_module(f"headrace.kernels.{op}.bench").make("cpu", TOKENS)
    assert case.op == op
    found, expected = case.kernel(), case.truth()
    torch.testing.assert_close(found, expected)
    assert case.moved_bytes(found) == BYTES[op]
    assert case.flop == (2 * 2 * ROWS * LENGTH * LENGTH * WIDTH if "attention" in op else 0)
