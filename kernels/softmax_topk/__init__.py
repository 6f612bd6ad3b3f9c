"""Logits to the most probable classes."""
