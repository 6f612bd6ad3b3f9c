"""The packed encoder with every kernel of it in Triton's interpreter, against transformers."""

import numpy as np
import torch
from transformers import AutoModel, BertConfig

from headrace.kernels.varlen_attention.launch import query_blocks
from headrace.stages.packed_encoder import PackedEncoder


def test_the_packed_encoder_by_kernels_gives_what_transformers_gives(kernels):
    config = BertConfig(
        vocab_size=50,
        max_position_embeddings=40,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=96,
    )
    torch.manual_seed(0)
    module = AutoModel.from_config(config).eval()
    encoder = PackedEncoder(module, config.to_dict())
    rows = [torch.arange(3, 3 + count) % 50 for count in (1, 33, 7)]
    edges = torch.tensor([0, 1, 34, 41], dtype=torch.int32)
    places = torch.cat([torch.arange(len(row)) for row in rows])
    with torch.inference_mode():
        blocks = torch.from_numpy(query_blocks(np.array([1, 33, 7]), 5))
        found = encoder(torch.cat(rows), places, edges, blocks)
        for at, row in enumerate(rows):
            ids = row[None]
            whole = module(input_ids=ids, attention_mask=torch.ones_like(ids))
            states = found[edges[at] : edges[at + 1]]
            torch.testing.assert_close(states, whole.last_hidden_state[0], atol=2e-5, rtol=2e-4)
    assert kernels == {
        ("embed_layernorm", "triton"): 1,
        ("varlen_attention", "triton"): 2,
        ("residual_layernorm", "triton"): 4,
        ("bias_gelu", "triton"): 2,
    }
