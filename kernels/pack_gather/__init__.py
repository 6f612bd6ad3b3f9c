"""Ragged tokens to one pack: a static number of them, row after row, without padding."""
