"""The readable truth of `softmax_topk`."""

import torch

from headrace.schemas.plan import Activation


def softmax_topk(
    logits_bc: torch.Tensor, k: int, *, activation: Activation = "softmax"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Take the k most probable classes of each row of logits (B, C) of any float dtype.

    Args:
        logits_bc: (B, C).
        k: how many classes, at most C.
        activation: softmax, where one class holds and their probabilities add up to 1; sigmoid,
            where each class holds or not, whatever the others do.

    Returns:
        probabilities (B, k) float32, largest first; classes (B, k) int64, of equals the lowest
        first; finite (B,) bool: every logit of the row is a number.
    """
    logits = logits_bc.float()
    scores = torch.sigmoid(logits) if activation == "sigmoid" else torch.softmax(logits, dim=1)
    # A stable sort, so that equal classes come in one order on every device.
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    return scores[:, :k], order[:, :k], torch.isfinite(logits).all(1)
