"""Step 5 on the GPU: WordPiece by cuDF, for the models and the rows that it tokenizes alike.

Only plain rows come here: ASCII without control characters, no word above 100 bytes, none of the
model's special tokens spelled out. For them BERT's normaliser is lowering at most, and what is left
to get wrong is checked against the model's own tokenizer before a run (stages/text_road.py).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from tokenizers import Tokenizer

from headrace.stages.cudf_frame import CudfSeries
from headrace.stages.handover import settle_cudf, tensor_of
from headrace.stages.ragged import Specials

# What cuDF looks up for a word that no pieces make up, and for the pieces behind a first one.
UNKNOWN, CONTINUES = "[UNK]", "##"
PROBES = ("one", "one two", "")


@dataclass(frozen=True)
class WordPieceSpec:
    """A WordPiece tokenizer as cuDF needs it."""

    vocabulary: tuple[str, ...]  # by id
    lowercase: bool
    spelled: tuple[str, ...]  # the added tokens; a text that holds one is for the host
    longest_word: int
    specials: Specials


def read_spec(folder: Path) -> WordPieceSpec | str:
    """Read a model's tokenizer.json; or say why cuDF can't stand in for it."""
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    content = json.loads(text)
    model, normalizer = content["model"], content.get("normalizer") or {}
    kinds = {
        "model": model.get("type"),
        "normalizer": normalizer.get("type"),
        "pre_tokenizer": (content.get("pre_tokenizer") or {}).get("type"),
    }
    wanted = {
        "model": "WordPiece",
        "normalizer": "BertNormalizer",
        "pre_tokenizer": "BertPreTokenizer",
    }
    if kinds != wanted:
        return f"the model's tokenizer is no WordPiece of BERT's kind but {kinds}"
    vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if [model["vocab"][word] for word in vocabulary] != list(range(len(vocabulary))):
        return "the ids of its vocabulary have gaps"
    if model.get("unk_token") != UNKNOWN or model.get("continuing_subword_prefix") != CONTINUES:
        return f"its WordPiece does not use {UNKNOWN} and {CONTINUES}"
    added = content.get("added_tokens") or []
    if any(token.get("normalized") for token in added):
        return "it has added tokens that are looked for in normalised text"
    specials = _specials_of(Tokenizer.from_str(text))
    if specials is None:
        return "its special tokens do not simply stand before and behind a text"
    return WordPieceSpec(
        vocabulary=tuple(vocabulary),
        lowercase=bool(normalizer.get("lowercase")),
        spelled=tuple(token["content"] for token in added),
        longest_word=int(model.get("max_input_chars_per_word", 100)),
        specials=specials,
    )


def _specials_of(tokenizer: Tokenizer) -> Specials | None:
    """Find out what a tokenizer puts before and behind each text; None if it does otherwise."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    found: list[set[Specials]] = []
    for text in PROBES:
        whole = tokenizer.encode(text).ids
        bare = tokenizer.encode(text, add_special_tokens=False).ids
        found.append(
            {
                Specials(tuple(whole[:at]), tuple(whole[at + len(bare) :]))
                for at in range(len(whole) - len(bare) + 1)
                if whole[at : at + len(bare)] == bare
            }
        )
    fitting = set.intersection(*found)
    return fitting.pop() if len(fitting) == 1 else None


class WordPiece:
    """A vocabulary on the device."""

    def __init__(self, spec: WordPieceSpec) -> None:
        """Copy the vocabulary to the device."""
        import cudf
        import pylibcudf as plc

        self.spec = spec
        words, _ = cudf.Series.from_arrow(pa.array(spec.vocabulary, pa.string())).to_pylibcudf()
        none, _ = cudf.Series.from_arrow(pa.array([], pa.string())).to_pylibcudf()
        self._vocabulary = plc.nvtext.wordpiece_tokenize.WordPieceVocabulary(words)
        self._normalizer = plc.nvtext.normalize.CharacterNormalizer(spec.lowercase, none)
        settle_cudf()  # every reader thread uses them

    def spelled_out(self, text: CudfSeries) -> npt.NDArray[np.bool_]:
        """Say which texts (N,) hold one of the special tokens as characters."""
        found = np.zeros(len(text), np.bool_)
        for token in self.spec.spelled:
            found |= text.str.contains(token, regex=False).fillna(value=False).to_numpy()
        return found

    def tokenize(self, text: CudfSeries) -> tuple[torch.Tensor, npt.NDArray[np.int64]]:
        """Tokenize plain texts (R,), none of them null.

        Returns:
            bare ids (T,) int32 on the device, row after row, and how many each row has, (R,) int64
            on the host.
        """
        import cudf
        import pylibcudf as plc

        column, _ = text.to_pylibcudf()
        spaced = plc.nvtext.normalize.normalize_characters(column, self._normalizer)
        lists = plc.nvtext.wordpiece_tokenize.wordpiece_tokenize(spaced, self._vocabulary, 0)
        tokens = cudf.Series.from_pylibcudf(lists)
        counts = tokens.list.len().fillna(0).to_numpy().astype(np.int64)
        return tensor_of(tokens.list.leaves.values, np.int32), counts


def torture(spec: WordPieceSpec) -> Sequence[str]:
    """Plain texts that a tokenizer can get wrong, to be checked with those of the input."""
    printable = "".join(map(chr, range(0x20, 0x7F)))
    words = [word.removeprefix(CONTINUES) for word in spec.vocabulary if word.isascii()]
    return [
        "",
        " ",
        " \t\r\n ",
        f"{printable[:48]} {printable[48:]}",
        " ".join(printable),
        " ".join(f"a{mark}b{mark}{mark} {mark}c" for mark in printable),
        *("x" * length for length in (1, 63, 64, 65, spec.longest_word)),
        "don't stop-now... (it's 3.14%)\tand\nA\r\nB  C_d#e",
        " ".join(words[:2_000]),
        "".join(words[-60:]).replace(" ", "")[: spec.longest_word],
    ]
