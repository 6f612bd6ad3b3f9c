"""Attention within packed sequences."""
