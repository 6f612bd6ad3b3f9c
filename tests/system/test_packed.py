"""Whole runs without padding, against what peers give for the same rows."""

import numpy as np
import pyarrow as pa
import pytest
from cli_support import demo_rows, read_output, tiny, write_job


def run_of(folder, quick, table, model):
    """Run a job, and read its report and its output."""
    folder.mkdir()
    run = quick.run(write_job(folder, table, model=model))
    assert run.rc == 0, run.stderr
    return run.json, read_output(folder / "out")


@pytest.fixture
def rows():
    """Rows of many lengths, one without a text, one empty, one above the model's longest."""
    table = demo_rows(120, every=150)
    texts = table["text"].to_pylist()
    texts[7], texts[8], texts[9] = None, "", "word " * 400
    return table.set_column(2, table.schema.field("text"), pa.array(texts))


@pytest.mark.filterwarnings("default")  # transformers' own
def test_minilm_s_vectors_are_those_of_sentence_transformers(tmp_path, quick, rows, minilm):
    from sentence_transformers import SentenceTransformer

    report, packed = run_of(tmp_path / "a", quick, rows, {"road": "packed"})
    assert quick("verify", tmp_path / "a" / "out").rc == 0
    assert packed.drop_columns(["embedding", "headrace_error"]).equals(rows)
    assert report["rows"] == {"in": 120, "good": 119, "null": 1, "errors": 0}
    assert report["padding_share"] < 0.15  # of two packs, the last of which is not full
    valid = packed.filter(packed["embedding"].is_valid())
    found = np.stack(valid["embedding"].to_numpy(zero_copy_only=False)).astype(np.float64)
    expected = SentenceTransformer(str(minilm), device="cpu").encode(valid["text"].to_pylist())
    assert found.shape == (119, 384)
    assert (found * expected).sum(1).min() >= 0.99999


@pytest.mark.filterwarnings("default")  # transformers' own
def test_a_classifier_s_labels_are_those_of_transformers(tmp_path, quick, rows, classifier):
    from transformers import pipeline

    model = {"path": str(classifier), "task": "classify", "road": "packed", "max_length": 128}
    _, packed = run_of(tmp_path / "a", quick, rows, model)
    texts = [text for text in rows["text"].to_pylist() if text is not None]
    classify = pipeline("text-classification", model=str(classifier))
    expected = classify(texts, truncation=True, max_length=128)
    found = packed.filter(packed["label"].is_valid())
    assert found["label"].to_pylist() == [one["label"] for one in expected]
    scores = [one["score"] for one in expected]
    np.testing.assert_allclose(found["score"].to_numpy(), scores, atol=1e-4)


def test_a_model_that_can_not_run_packed_is_said_before_anything_is_written(tmp_path, quick):
    run = quick.run(write_job(tmp_path, demo_rows(10), model=tiny() | {"road": "packed"}))
    assert run.rc == 2
    assert "model.factory gives a module" in run.stderr
    assert not (tmp_path / "out").exists()
