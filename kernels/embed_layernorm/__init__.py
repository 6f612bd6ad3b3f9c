"""Token ids to the LayerNorm of their summed embeddings."""
