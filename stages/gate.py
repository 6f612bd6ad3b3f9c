"""Step 1g: the quality gate, which says whether results are as good as those of fp32."""

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.stages.results import Results

MIN_COSINE = 0.999
MIN_NORM = 1e-30
MIN_AGREEMENT = 0.99  # of the rows' labels
MAX_SCORE_DIFFERENCE = 0.01  # where there is one class, so that labels can't differ


def compare(safe: Results, fast: Results, *, other: str = "fp32") -> tuple[bool, str]:
    """Compare a sample's results with those that are known to be good.

    Args:
        safe: those.
        fast: of the same rows.
        other: what the words call the good ones.

    Returns:
        Whether they may take their place, and the measure in words: the lowest cosine of
        embeddings, the share of rows with the same labels, or the largest difference of scores.
    """
    both = safe.valid & fast.valid
    if not both.any() or (safe.valid != fast.valid).any():
        return False, f"it computes other rows than {other}"
    if safe.facts.task == "embed":
        cosine = float(cosines(safe.values[both], fast.values[both]).min())
        return cosine >= MIN_COSINE, f"cosine {cosine:.5f} to {other}"
    if safe.facts.width == 1:
        difference = float(np.abs(safe.values[both] - fast.values[both]).max())
        return difference <= MAX_SCORE_DIFFERENCE, f"scores within {difference:.5f} of {other}"
    agreement = float((_given(safe) == _given(fast)).all(1)[both].mean())
    return agreement >= MIN_AGREEMENT, f"label agreement {agreement:.4f} with {other}"


def _given(results: Results) -> npt.NDArray[np.bool_]:
    """Which labels (N, C) the rows get: the first, or those that reach the threshold."""
    given = np.zeros((results.valid.size, results.facts.width), np.bool_)
    threshold = results.facts.threshold
    first = np.arange(results.facts.top_k) == 0
    chosen = np.broadcast_to(first, results.classes.shape)
    if threshold is not None:
        chosen = results.reaching(threshold)
    np.put_along_axis(given, results.classes, chosen, axis=1)
    return given


def cosines(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Tell the cosine of each row (N,) of two arrays (N, W)."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    # Two zero vectors are the same result; one beside another vector is not.
    same = (left == right).all(1)
    return np.where(same, 1.0, (left * right).sum(1) / np.maximum(norms, MIN_NORM))
