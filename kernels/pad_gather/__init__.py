"""Ragged tokens to one static batch."""
