"""What a task can be asked for: several labels, short vectors, half precision, names of columns."""

import json

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from cli_support import MINILM, demo_rows, read_output, tiny, write_job

PAIRS = pa.list_(pa.struct([("label", pa.string()), ("score", pa.float32())]))
NAMES = ("animal", "food", "plant", "place", "act")
# The smallest number that float16 rounds to infinity.
OVERFLOW = 65_520.0


def vectors(output, column="embedding"):
    """The vectors (N, W) of an output without a null."""
    assert output[column].null_count == 0
    flat = output[column].combine_chunks().flatten()
    return flat.to_numpy().reshape(output.num_rows, -1)


def probabilities_of(folder, texts):
    """What transformers' own model gives, by sigmoid: (N, C)."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        batch = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
        logits = model(batch["input_ids"], batch["attention_mask"]).logits
    return logits.sigmoid().numpy()


def kept(probabilities, threshold, top_k=None):
    """The labels of a row that reach the threshold, most probable first, with their scores."""
    # Nearer to it, rounding decides.
    assert np.abs(probabilities - threshold).min() > 1e-5
    first = np.argsort(-probabilities, kind="stable")[:top_k]
    return [(NAMES[at], probabilities[at]) for at in first if probabilities[at] >= threshold]


def assert_same(row, expected):
    assert [entry["label"] for entry in row] == [label for label, _ in expected]
    assert [entry["score"] for entry in row] == pytest.approx([s for _, s in expected], abs=1e-5)


@pytest.mark.filterwarnings("default")  # transformers' own
def test_several_labels_agree_with_transformers(tmp_path, quick, multi_label_classifier):
    from transformers import pipeline

    table = demo_rows(200, every=60)
    texts = table["text"].to_pylist()
    texts[7] = None
    table = table.set_column(2, table.schema.field("text"), pa.array(texts))
    model = {"path": str(multi_label_classifier), "task": "classify"}
    run = quick.run(write_job(tmp_path, table, model=model))
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 200, "good": 199, "null": 1, "errors": 0}
    output = read_output(tmp_path / "out")
    assert output.column_names == [*table.column_names, "labels", "headrace_error"]
    assert output.schema.field("labels").type == PAIRS
    rows = output["labels"].to_pylist()
    assert rows.pop(7) is None
    texts.pop(7)
    probabilities = probabilities_of(multi_label_classifier, texts)
    for row, each in zip(rows, probabilities, strict=True):
        assert_same(row, kept(each, 0.5))
    assert {len(row) for row in rows} == {1, 2, 3, 4, 5}
    classify = pipeline("text-classification", model=str(multi_label_classifier), top_k=None)
    for row, theirs in zip(rows[:20], classify(texts[:20]), strict=True):
        assert_same(row, [(e["label"], e["score"]) for e in theirs if e["score"] >= 0.5])
    assert quick("verify", "out").rc == 0


@pytest.mark.filterwarnings("default")  # transformers' own
def test_a_higher_threshold_may_leave_a_row_without_a_label(
    tmp_path, quick, multi_label_classifier
):
    table = demo_rows(200, every=60)
    model = {"path": str(multi_label_classifier), "task": "classify"}
    job = write_job(tmp_path, table, model={**model, "threshold": 0.7, "top_k": 2})
    run = quick.run(job)
    assert run.rc == 0, run.stderr
    assert run.json["rows"]["good"] == 200
    plan = json.loads((tmp_path / "out/_headrace/plan.json").read_text())["result"]
    assert (plan["activation"], plan["threshold"], plan["top_k"]) == ("sigmoid", 0.7, 2)
    rows = read_output(tmp_path / "out")["labels"].to_pylist()
    probabilities = probabilities_of(multi_label_classifier, table["text"].to_pylist())
    for row, each in zip(rows, probabilities, strict=True):
        assert_same(row, kept(each, 0.7, 2))
    assert {len(row) for row in rows} == {0, 1, 2}
    assert quick("verify", "out").rc == 0


def test_one_class_alone_gets_a_sigmoid(tmp_path, quick):
    """A user's own module; the folder that gives the tokenizer says nothing about classes."""
    table = demo_rows(100)
    model = {"factory": "tiny_models:build_one_class", "task": "classify", "precision": "fp32"}
    run = quick.run(write_job(tmp_path, table, model=model))
    assert run.rc == 0, run.stderr
    output = read_output(tmp_path / "out")
    assert set(output["label"].to_pylist()) == {"0"}
    scores = output["score"].to_numpy()
    assert 0.0 < scores.min() < 0.3
    assert 0.7 < scores.max() < 1.0
    assert quick("verify", "out").rc == 0


def test_short_vectors_agree_with_sentence_transformers(tmp_path, quick):
    from sentence_transformers import SentenceTransformer

    from headrace.stages.model_folder import find_model

    table = demo_rows(80, every=60)
    run = quick.run(write_job(tmp_path, table, model={"truncate_dim": 96}))
    assert run.rc == 0, run.stderr
    output = read_output(tmp_path / "out")
    assert output.schema.field("embedding").type == pa.list_(pa.float32(), 96)
    ours = vectors(output)
    model = SentenceTransformer(str(find_model(MINILM)), device="cpu")
    texts = table["text"].to_pylist()
    theirs = model.encode(texts, truncate_dim=96, normalize_embeddings=True)
    assert (ours * theirs).sum(1).min() >= 0.9999
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1.0, atol=1e-6)
    assert quick("verify", "out").rc == 0


def test_small_vectors_stand_for_the_large_ones(tmp_path, quick):
    """As whole numbers and as bits; a row without a text has neither."""
    table = demo_rows(60)
    texts = table["text"].to_pylist()
    texts[7] = None
    table = table.set_column(2, table.schema.field("text"), pa.array(texts))
    job = write_job(tmp_path, table, model={**tiny(dim=12), "normalize": False})
    found = {}
    for dtype in ("float32", "int8", "binary"):
        folder = tmp_path / dtype
        run = quick.run(job, "--set", f"output.dtype={dtype}", "--set", f"output.path={folder}")
        assert run.rc == 0, run.stderr
        output = read_output(folder)
        assert output["embedding"].to_pylist()[7] is None
        found[dtype] = output.filter(output["embedding"].is_valid())
    exact = vectors(found["float32"])
    scales = found["int8"]["embedding_scale"].to_numpy()
    assert found["int8"].column_names[-3:] == ["embedding", "embedding_scale", "headrace_error"]
    assert (vectors(found["int8"]).dtype, scales.dtype) == (np.int8, np.float32)
    error = np.abs(vectors(found["int8"]) * scales[:, None] - exact)
    assert (error <= scales[:, None] * 0.5001).all()
    np.testing.assert_array_equal(vectors(found["binary"]), np.packbits(exact > 0, axis=1))
    assert quick("verify", tmp_path / "int8").rc == 0


def test_half_precision_is_a_cast_and_every_reader_reads_it(tmp_path, quick):
    """A row with a value beyond float16's range has no result."""
    table = demo_rows(200)
    model = {**tiny(scale=90_000.0), "normalize": False}
    job = write_job(tmp_path, table, model=model)
    assert quick.run(job, "--set", f"output.path={tmp_path / 'exact'}").rc == 0
    exact = vectors(read_output(tmp_path / "exact"))
    run = quick.run(job, "--set", "output.dtype=float16")
    assert run.rc == 0, run.stderr
    good = np.abs(exact).max(1) < OVERFLOW
    assert 50 < good.sum() < 190
    assert run.json["rows"] == {
        "in": 200,
        "good": good.sum(),
        "null": 0,
        "errors": (~good).sum(),
    }
    output = read_output(tmp_path / "out")
    assert output.schema.field("embedding").type == pa.list_(pa.float16(), 8)
    reasons = output["headrace_error"].to_pylist()
    assert reasons == [None if fine else "NonFiniteResult in forward" for fine in good]
    half = vectors(output.filter(pa.array(good)))
    assert half.dtype == np.float16
    assert (half == exact[good].astype(np.float16)).all()
    assert quick("verify", "out").rc == 0
    check_readers(tmp_path / "out", half)


def check_readers(folder, half):
    read = pyarrow.dataset.dataset(folder).to_table(columns=["embedding"])
    assert (vectors(read.filter(pa.compute.is_valid(read["embedding"]))) == half).all()
    frame = pl.read_parquet(f"{folder}/*.parquet")
    assert frame.schema["embedding"] == pl.Array(pl.Float16, 8)
    assert (frame["embedding"].drop_nulls().to_numpy() == half).all()
    query = f"from '{folder}/*.parquet' where headrace_error is null"
    kinds = duckdb.sql(f"select distinct typeof(embedding) {query}").fetchall()
    assert kinds == [("FLOAT[]",)]
    rows = duckdb.sql(f"select embedding {query}").fetchall()
    assert (np.array([row[0] for row in rows], np.float16) == half).all()


def test_a_run_goes_over_another_s_output(tmp_path, quick, classifier):
    first = write_job(
        tmp_path,
        demo_rows(200),
        model=tiny(),
        output={"path": str(tmp_path / "a"), "dtype": "float16"},
    )
    assert quick.run(first).rc == 0
    second = write_job(
        tmp_path,
        demo_rows(1),
        name="second",
        model={"path": str(classifier), "task": "classify", "top_k": 2},
        input={"path": str(tmp_path / "a"), "text": "text"},
    )
    refused = quick.run(second)
    assert refused.rc == 2
    assert "'headrace_error'" in refused.stderr
    assert "output.prefix" in refused.stderr
    assert "output.columns" in refused.stderr
    run = quick.run(second, "--set", "output.prefix=b_")
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 200, "good": 200, "null": 0, "errors": 0}
    before, after = read_output(tmp_path / "a"), read_output(tmp_path / "out")
    added = ["b_label", "b_score", "b_top", "b_headrace_error"]
    assert before.column_names[-2:] == ["embedding", "headrace_error"]
    assert after.column_names == [*before.column_names, *added]
    assert after.select(before.column_names).equals(before)
    assert set(after["b_label"].to_pylist()) <= set(NAMES)
    for folder in ("a", "out"):
        assert quick("verify", folder).rc == 0


def test_a_plan_counts_the_bytes_of_the_dtype(tmp_path, quick):
    job = write_job(tmp_path, demo_rows(300), model={**tiny(), "truncate_dim": 6})
    found = quick("plan", job, "--json", "--set", "output.dtype=float16")
    assert found.rc == 0, found.stderr
    assert (found.json["result"]["width"], found.json["result"]["dtype"]) == (6, "float16")
    assert found.json["shard_result_bytes"] == 100 * 6 * 2


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model.truncate_dim=9"], "at most the model's 8 values, got 9"),
        (["model.task=classify", "output.dtype=float16"], "output.dtype: expected float32"),
        (["model.task=classify", "model.threshold=0.5"], "model.threshold: expected a multi-label"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(tmp_path, quick, overrides, said):
    job = write_job(tmp_path, demo_rows(100), model=tiny())
    run = quick.run(job, *(word for override in overrides for word in ("--set", override)))
    assert run.rc == 2, run.stderr
    assert said in run.stderr
    assert not (tmp_path / "out").exists()
