"""The readable truth of `bias_gelu`."""

from typing import Literal

import torch

GeluForm = Literal["erf", "tanh"]


def bias_gelu(x_th: torch.Tensor, bias_h: torch.Tensor, form: GeluForm = "erf") -> torch.Tensor:
    """Add a bias to rows and take their GELU (Hendrycks & Gimpel 2016, arXiv 1606.08415).

    Args:
        x_th: (T, H) of any float dtype.
        bias_h: (H,).
        form: erf, x * Phi(x); or the paper's approximation by tanh.

    Returns:
        (T, H) of the dtype of `x_th`, computed in float32.
    """
    total = x_th.float() + bias_h.float()
    approximate = "tanh" if form == "tanh" else "none"
    return torch.nn.functional.gelu(total, approximate=approximate).to(x_th.dtype)
