"""The readable truth of `embed_layernorm`."""

import torch


def embed_layernorm(
    ids_t: torch.Tensor,
    positions_t: torch.Tensor,
    words_vh: torch.Tensor,
    places_ph: torch.Tensor,
    kind_h: torch.Tensor,
    gain_h: torch.Tensor,
    shift_h: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """Sum the embeddings of tokens as BERT does (Devlin et al. 2018), and normalise them.

    Args:
        ids_t: (T,) int32 or int64, tokens.
        positions_t: (T,) likewise, their positions as the model counts them.
        words_vh: (V, H), the embedding of each token.
        places_ph: (P, H), that of each position.
        kind_h: (H,), that of the one sentence kind; zeros for a model without kinds.
        gain_h: (H,), LayerNorm's weight.
        shift_h: (H,), its bias.
        eps: added to the variance.

    Returns:
        (T, H) of the dtype of `words_vh`, computed in float32.
    """
    total = words_vh[ids_t].float() + places_ph[positions_t].float() + kind_h.float()
    width = (total.shape[-1],)
    normed = torch.nn.functional.layer_norm(total, width, gain_h.float(), shift_h.float(), eps)
    return normed.to(words_vh.dtype)
