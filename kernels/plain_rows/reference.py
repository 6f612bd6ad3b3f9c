"""The readable truth of `plain_rows`."""

import torch

# Tab, line feed, carriage return and space: what BERT's normaliser takes for whitespace in ASCII.
SPACES = (0x09, 0x0A, 0x0D, 0x20)
FIRST_PRINTABLE, LAST_PRINTABLE = 0x21, 0x7E


def plain_rows(
    bytes_t: torch.Tensor, edges_n1: torch.Tensor, longest_word: int | None = None
) -> torch.Tensor:
    """Say which rows are ASCII without control characters, and have no word above a length.

    Args:
        bytes_t: (T,) uint8, the texts of all rows, one after the other.
        edges_n1: (N + 1,) int64, where each row begins in `bytes_t`, and the end: from 0 to T.
        longest_word: bytes that may stand between two spaces; None: any number.

    Returns:
        plain (N,) bool. An empty row is plain.
    """
    plain_n = torch.ones(edges_n1.numel() - 1, dtype=torch.bool, device=edges_n1.device)
    space_t = torch.zeros_like(bytes_t, dtype=torch.bool)
    for space in SPACES:
        space_t |= bytes_t == space
    odd_t = (bytes_t < FIRST_PRINTABLE) | (bytes_t > LAST_PRINTABLE)
    plain_n[_row_of((odd_t & ~space_t).nonzero()[:, 0], edges_n1)] = False
    if longest_word is not None:
        space_at = space_t.nonzero()[:, 0]
        # Words begin at a row's begin and behind each space, and end at each space and the row's
        # end. Both sorted, they stand side by side.
        begins = torch.cat([edges_n1[:-1], space_at + 1]).sort().values
        ends = torch.cat([space_at, edges_n1[1:]]).sort().values
        plain_n[_row_of(begins[ends - begins > longest_word], edges_n1)] = False
    return plain_n


def _row_of(at_k: torch.Tensor, edges_n1: torch.Tensor) -> torch.Tensor:
    """Find the row of each byte; empty rows before it are passed over."""
    return torch.searchsorted(edges_n1, at_k, right=True) - 1
