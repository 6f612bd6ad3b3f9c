"""A product, its bias and the residual to their LayerNorm."""
