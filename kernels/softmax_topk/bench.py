"""`softmax_topk`: the best of 1,024 classes."""

from headrace.kernels.case import CLASSES, Case, case, random
from headrace.kernels.softmax_topk import launch, reference


def make(device: str, tokens: int) -> Case:
    """Reads logits (T, C), and writes a score, a class and a flag a row."""
    given = (random(device, tokens, CLASSES), 1)
    return case("softmax_topk", launch.softmax_topk, reference.softmax_topk, given)
