import pyarrow as pa

from headrace.stages.prepare import HostTexts
from headrace.stages.spans import Spans
from headrace.stages.texts import BAD_UTF8


class Picky:
    """Stands in for a tokenizer that fails on a text, which `tokenizers` does hardly ever."""

    def encode_batch_fast(self, texts, add_special_tokens):
        if any("bad" in text for text in texts):
            raise OverflowError
        return [type("Encoding", (), {"ids": list(range(len(text)))}) for text in texts]


def test_rows_are_told_apart_by_what_became_of_them(make_job):
    column = pa.array([b"ab", None, b"\xff", b"bad", b""], pa.binary()).view(pa.string())
    spans = Spans()
    texts = HostTexts(make_job(), Picky(), lowercase=False, prompt="", max_length=16)
    prepared = texts.prepare(pa.table({"text": column}), [], spans)
    assert prepared.faults == {2: BAD_UTF8, 3: "OverflowError in tokenize"}
    assert prepared.rows.tolist() == [0, 4]
    assert prepared.nulls.tolist() == [1]
    assert prepared.ragged.lengths.tolist() == [2, 0, 0, 0, 0]
    assert prepared.tokenized == {"tokenizers": 2}
    assert set(spans.seconds) == {"preprocess_s", "tokenize_s"}
