"""Bytes of text to the rows that need no Unicode."""
