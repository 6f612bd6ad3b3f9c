"""A product and its bias to their GELU."""
