import dataclasses
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from headrace.schemas.errors import JobError
from headrace.stages.model_folder import open_model_folder
from headrace.stages.tokenize import ROWS_AT_ONCE, load_tokenizer, tokenize


@pytest.fixture(scope="module")
def model(make_job, minilm):
    return open_model_folder(make_job(model__path=str(minilm)).model)


@pytest.fixture
def tokenizer(model):
    return load_tokenizer(model)


def text_array(values):
    return pa.array(values, pa.large_string())


def rows_of(tokens):
    edges = tokens.offsets
    return [tokens.ids[a:b].tolist() for a, b in pairwise(edges)]


TEXTS = ["a headrace keeps a turbine full", "", "Ünïcode 🎉 中文", "x" * 300, "one two " * 200]


@pytest.fixture(scope="module")
def reference(minilm):
    """The model's own tokenizer by way of transformers, truncating at 256."""
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(minilm, local_files_only=True)
    return lambda text: loaded(text, truncation=True, max_length=256)["input_ids"]


def test_the_ids_are_those_of_transformers(tokenizer, reference):
    tokens = tokenize(text_array(TEXTS), tokenizer, lowercase=False)
    assert rows_of(tokens) == [reference(text) for text in TEXTS]
    assert tokens.ids.dtype == np.int32
    assert tokens.offsets.dtype == np.int64
    assert tokens.lengths.tolist()[-1] == 256
    assert tokens.faults == {}


def test_the_padding_in_tokenizer_json_is_gone(tokenizer, minilm):
    own = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    assert len(own.encode("one").ids) == 128  # else this test would show nothing
    tokens = tokenize(text_array(["one"]), tokenizer, lowercase=False)
    assert rows_of(tokens) == [[101, 2028, 102]]


def test_the_truncation_in_tokenizer_json_is_gone(tokenizer):
    tokens = tokenize(text_array(["one " * 200]), tokenizer, lowercase=False)
    assert tokens.lengths.tolist() == [202]


def test_special_tokens_can_be_left_out(tokenizer):
    whole = tokenize(text_array(TEXTS), tokenizer, lowercase=False)
    bare = tokenize(text_array(TEXTS), tokenizer, lowercase=False, bare=True)
    own = [[at for at in row if at not in {101, 102}] for row in rows_of(whole)]
    assert [row[:254] for row in rows_of(bare)] == own
    assert bare.lengths.tolist()[1] == 0


def test_the_job_s_length_cuts(model):
    short = load_tokenizer(dataclasses.replace(model, max_length=5))
    tokens = tokenize(text_array(["one two three four five", "one"]), short, lowercase=False)
    assert rows_of(tokens) == [[101, 2028, 2048, 2093, 102], [101, 2028, 102]]


def test_nulls_have_no_token_and_empty_strings_have_the_special_ones(tokenizer):
    tokens = tokenize(text_array([None, "", None, "one", None]), tokenizer, lowercase=False)
    assert tokens.lengths.tolist() == [0, 2, 0, 3, 0]
    assert tokens.offsets[0] == 0


@pytest.mark.parametrize("values", [[], [None], [None] * 3])
def test_no_text_gives_no_token(tokenizer, values):
    tokens = tokenize(text_array(values), tokenizer, lowercase=False)
    assert tokens.ids.size == 0
    assert tokens.ids.dtype == np.int32
    assert tokens.offsets.tolist() == [0] * (len(values) + 1)


def test_more_rows_than_go_in_at_once_keep_their_order(tokenizer):
    words = ["one", "two", "three", "four four", None]
    values = [words[at % 5] for at in range(2 * ROWS_AT_ONCE + 7)]
    tokens = tokenize(text_array(values), tokenizer, lowercase=False)
    alone = dict(
        zip(words, rows_of(tokenize(text_array(words), tokenizer, lowercase=False)), strict=True)
    )
    assert rows_of(tokens) == [alone[value] for value in values]


def test_lowercase_lowers_before_the_tokenizer_does(write_model, make_job, tmp_path):
    folder = write_model(tmp_path / "m")
    cased = load_tokenizer(open_model_folder(make_job(model__path=str(folder)).model))
    kept = tokenize(text_array(["ONE one"]), cased, lowercase=False)
    lowered = tokenize(text_array(["ONE one"]), cased, lowercase=True)
    assert rows_of(kept) == [[2, 1, 4, 3]]
    assert rows_of(lowered) == [[2, 4, 4, 3]]


@pytest.mark.parametrize("length", [1, 2])
def test_a_length_without_room_for_a_token_is_refused(model, length):
    with pytest.raises(JobError, match=r"max_length: expected more than the 2 special tokens"):
        load_tokenizer(dataclasses.replace(model, max_length=length))
    load_tokenizer(dataclasses.replace(model, max_length=3))


def test_a_tokenizer_that_can_not_be_read_is_named(write_model, make_job, tmp_path):
    folder = write_model(tmp_path / "m")
    (folder / "tokenizer.json").write_text('{"version": "9"}')
    model = open_model_folder(make_job(model__path=str(folder)).model)
    with pytest.raises(JobError, match=r"tokenizer\.json"):
        load_tokenizer(model)


@dataclasses.dataclass
class Encoding:
    ids: list


class Picky:
    """Stands in for a tokenizer that fails on a text, which `tokenizers` does hardly ever."""

    def encode_batch_fast(self, texts, add_special_tokens):
        if any("bad" in text for text in texts):
            raise OverflowError("a secret of the row")
        return [Encoding([len(text)]) for text in texts]


def test_a_text_that_can_not_be_encoded_is_lost_alone():
    values = ["a", None, "bad", "ccc"] + ["dddd"] * ROWS_AT_ONCE + ["bad too"]
    tokens = tokenize(text_array(values), Picky(), lowercase=False)
    reason = "OverflowError in tokenize"
    assert tokens.faults == {2: reason, ROWS_AT_ONCE + 4: reason}
    assert rows_of(tokens)[:4] == [[1], [], [], [3]]
    assert rows_of(tokens)[4:-1] == [[4]] * ROWS_AT_ONCE
    assert rows_of(tokens)[-1] == []
