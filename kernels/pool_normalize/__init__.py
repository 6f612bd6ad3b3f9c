"""Hidden states to one finite, normalised vector a row."""
