"""The readable truth of `softmax_topk`."""

import torch


def softmax_topk(
    logits_bc: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Take the k most probable classes of each row of logits (B, C) of any float dtype.

    Returns:
        probabilities (B, k) float32, largest first; classes (B, k) int64, of equals the lowest
        first; finite (B,) bool: every logit of the row is a number.
    """
    logits = logits_bc.float()
    # A stable sort, so that equal classes come in one order on every device.
    scores, order = torch.softmax(logits, dim=1).sort(dim=1, descending=True, stable=True)
    return scores[:, :k], order[:, :k], torch.isfinite(logits).all(1)
