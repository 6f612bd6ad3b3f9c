"""`embed_layernorm` of random words of MiniLM's vocabulary."""

import torch

from headrace.kernels.case import LENGTH, VOCABULARY, WIDTH, Case, bytes_of, case, random
from headrace.kernels.embed_layernorm import launch, reference


def make(device: str, tokens: int) -> Case:
    """Reads ids, positions and a word's embedding for each token, and writes (T, H).

    Of the tables only what is looked up counts: one row a token of words; positions, of which there
    are few, once.
    """
    ids = torch.randint(0, VOCABULARY, (tokens,), device=device, dtype=torch.int32)
    positions = (torch.arange(tokens, device=device) % LENGTH).int()
    words, places = random(device, VOCABULARY, WIDTH), random(device, LENGTH, WIDTH)
    vectors = tuple(random(device, WIDTH) for _ in range(3))
    looked_up = tokens * bytes_of(words[0])
    return case(
        "embed_layernorm",
        launch.embed_layernorm,
        reference.embed_layernorm,
        (ids, positions, words, places, *vectors, 1e-12),
        read_bytes=bytes_of(ids, positions, places, *vectors) + looked_up,
    )
