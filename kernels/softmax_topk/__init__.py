"""Logits to the most probable classes, by softmax or by sigmoid."""
