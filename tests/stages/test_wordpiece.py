import json

import numpy as np
import pyarrow as pa
import pytest
from gpu_support import install
from tokenizers import Tokenizer

from headrace.stages.ragged import Specials
from headrace.stages.wordpiece import WordPiece, read_spec, torture


@pytest.fixture(scope="module")
def content(minilm):
    return json.loads((minilm / "tokenizer.json").read_bytes())


@pytest.fixture
def spec_of(content, tmp_path):
    """Read MiniLM's tokenizer with something in it changed."""

    def read(change=lambda content: None):
        changed = json.loads(json.dumps(content))
        change(changed)
        (tmp_path / "tokenizer.json").write_text(json.dumps(changed))
        return read_spec(tmp_path)

    return read


def test_a_bert_tokenizer_is_read(spec_of):
    spec = spec_of()
    assert spec.vocabulary[:2] == ("[PAD]", "[unused0]")
    assert spec.vocabulary[2028] == "one"
    assert len(spec.vocabulary) == 30_522
    assert spec.lowercase
    assert spec.spelled == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    assert spec.longest_word == 100
    assert spec.specials == Specials((101,), (102,))


def gap(content):
    content["model"]["vocab"]["one"] = 10**6


def prefix(content):
    content["model"]["continuing_subword_prefix"] = "@@"


def normalized(content):
    content["added_tokens"][0]["normalized"] = True


def between(content):
    """A special token stands in the middle of what the model gets."""
    content["post_processor"]["single"] += content["post_processor"]["single"][1:]


def another(key):
    def change(content):
        content[key] = None

    change.__name__ = f"no {key}"
    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (gap, "gaps"),
        (prefix, "##"),
        (normalized, "normalised"),
        (between, "special tokens"),
        (another("normalizer"), "no WordPiece of BERT's kind"),
        (another("pre_tokenizer"), "no WordPiece of BERT's kind"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_another_tokenizer_is_named_and_not_taken(spec_of, change, words):
    assert words in spec_of(change)


def test_a_model_that_is_no_wordpiece_is_named(write_model, tmp_path):
    assert "WordLevel" in read_spec(write_model(tmp_path / "m"))


def test_a_tokenizer_without_special_tokens_has_none(spec_of):
    assert spec_of(another("post_processor")).specials == Specials()


@pytest.fixture
def wordpiece(monkeypatch, spec_of):
    install(monkeypatch)
    return WordPiece(spec_of())


def series(texts):
    import cudf

    return cudf.Series.from_arrow(pa.array(texts, pa.string()))


def test_ids_come_bare_and_row_after_row(wordpiece):
    ids, counts = wordpiece.tokenize(series(["one two", "", "Embeddings!"]))
    assert counts.tolist() == [2, 0, 5]
    assert counts.dtype == np.int64
    assert ids.tolist() == [2028, 2048, 7861, 8270, 4667, 2015, 999]


def test_texts_that_spell_a_special_token_are_found(wordpiece):
    texts = ["[CLS]", "a[SEP]b", "[sep]", "CLS", "", None, "[UNK] [PAD]"]
    found = wordpiece.spelled_out(series(texts))
    assert found.tolist() == [True, True, False, False, False, False, True]


def test_the_hard_texts_are_plain_and_hard(minilm, spec_of):
    """Each is ASCII; they use many pieces, and the longest word is as long as it may be."""
    spec = spec_of()
    texts = torture(spec)
    assert all(text.isascii() for text in texts)
    words = [word for text in texts for word in text.split()]
    assert max(map(len, words)) == spec.longest_word
    tokenizer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids = {at for text in texts for at in tokenizer.encode(text, add_special_tokens=False).ids}
    assert len(ids) > 1_000
