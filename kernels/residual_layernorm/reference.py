"""The readable truth of `residual_layernorm`."""

import torch


def residual_layernorm(
    x_th: torch.Tensor,
    bias_h: torch.Tensor,
    residual_th: torch.Tensor,
    gain_h: torch.Tensor,
    shift_h: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """Add a bias and the residual to rows, and normalise them (Ba et al. 2016, arXiv 1607.06450).

    Args:
        x_th: (T, H) of any float dtype.
        bias_h: (H,).
        residual_th: (T, H).
        gain_h: (H,), LayerNorm's weight.
        shift_h: (H,), its bias.
        eps: added to the variance, which is that of the row's H values (not H - 1).

    Returns:
        (T, H) of the dtype of `x_th`, computed in float32.
    """
    total = x_th.float() + bias_h.float() + residual_th.float()
    width = (total.shape[-1],)
    normed = torch.nn.functional.layer_norm(total, width, gain_h.float(), shift_h.float(), eps)
    return normed.to(x_th.dtype)
