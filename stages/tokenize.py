"""Step 5: texts to ragged tokens, never padded, never kept as Python lists."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tokenizers import Tokenizer

from headrace.schemas.errors import JobError
from headrace.stages.model_folder import ModelFolder
from headrace.stages.wording import in_short

# `tokenizers` hands out Python lists, 28 bytes a token and more: only this many rows at a time.
ROWS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Tokens:
    """Ragged token ids. A row without a text has none."""

    ids: npt.NDArray[np.int32]  # (T,)
    offsets: npt.NDArray[np.int64]  # (N + 1,)
    faults: dict[int, str] = field(default_factory=dict)  # row -> reason

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each row, (N,) int64."""
        return np.diff(self.offsets)


def load_tokenizer(model: ModelFolder) -> Tokenizer:
    """Load the model's tokenizer, its own padding and truncation replaced by ours.

    Raises:
        JobError: the file can't be read, or the length leaves no room for a token.
    """
    file = model.path / "tokenizer.json"
    try:
        tokenizer: Tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # `tokenizers` raises nothing narrower
        msg = (
            f"model.path: expected a tokenizer that `tokenizers` reads in {file}, got "
            f"{in_short(error)}. Copy the folder anew."
        )
        raise JobError(msg) from error
    special = tokenizer.num_special_tokens_to_add(is_pair=False)
    if model.max_length <= special:
        msg = (
            f"model.max_length: expected more than the {special} special tokens of each row, "
            f"got {model.max_length}"
        )
        raise JobError(msg)
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.max_length)
    return tokenizer


def tokenize(
    texts: pa.LargeStringArray, tokenizer: Tokenizer, *, lowercase: bool, bare: bool = False
) -> Tokens:
    """Encode the texts with the model's special tokens; null rows get no token.

    Args:
        texts: (N,) with nulls.
        tokenizer: from `load_tokenizer`.
        lowercase: lower the text first, as `do_lower_case` in sentence_bert_config.json asks.
        bare: leave the special tokens out.
    """
    ids: list[npt.NDArray[np.int32]] = []
    counts: list[npt.NDArray[np.int64]] = []
    faults: dict[int, str] = {}
    for start in range(0, len(texts), ROWS_AT_ONCE):
        rows = texts.slice(start, ROWS_AT_ONCE).to_pylist()
        at = [row for row, text in enumerate(rows) if text is not None]
        given = [rows[row].lower() if lowercase else rows[row] for row in at]
        encoded, bad = _encode(tokenizer, given, bare=bare)
        faults |= {start + at[which]: reason for which, reason in bad.items()}
        counted = np.zeros(len(rows), np.int64)
        counted[at] = [len(tokens) for tokens in encoded]
        counts.append(counted)
        ids.append(_flat(encoded))
    offsets = np.zeros(len(texts) + 1, np.int64)
    if counts:
        np.cumsum(np.concatenate(counts), out=offsets[1:])
    return Tokens(np.concatenate(ids) if ids else np.empty(0, np.int32), offsets, faults)


def _flat(encoded: list[list[int]]) -> npt.NDArray[np.int32]:
    return np.fromiter((token for tokens in encoded for token in tokens), np.int32)


def _encode(
    tokenizer: Any,  # noqa: ANN401 - `tokenizers` ships no usable types
    texts: list[str],
    *,
    bare: bool,
) -> tuple[list[list[int]], dict[int, str]]:
    """Encode a batch; where it fails, each text alone, so that only the guilty ones are lost."""
    try:
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=not bare)
        return [encoding.ids for encoding in encodings], {}
    except Exception as error:  # noqa: BLE001 - `tokenizers` raises nothing narrower
        if len(texts) == 1:
            return [[]], {0: f"{type(error).__name__} in tokenize"}
    results = [_encode(tokenizer, [text], bare=bare) for text in texts]
    faults = {at: bad[0] for at, (_, bad) in enumerate(results) if bad}
    return [encoded[0] for encoded, _ in results], faults
