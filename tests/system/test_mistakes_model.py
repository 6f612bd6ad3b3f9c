"""Mistakes in the model: one message each. `plan` loads the model as a worker does, in here."""

import json
import shutil

import pytest
from cli_support import demo_rows, write_job
from mistake_support import check, refused

# What transformers warns of is no mistake of ours.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def small_bert(tmp_path_factory, write_model):
    """A complete model folder: eleven words, one layer, random weights."""
    import torch
    from transformers import BertConfig, BertModel

    folder = write_model(tmp_path_factory.mktemp("models") / "bert")
    (folder / "model.safetensors").unlink()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=11,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def model(tmp_path, small_bert):
    return shutil.copytree(small_bert, tmp_path / "model")


@pytest.fixture
def job(tmp_path, model):
    return write_job(tmp_path, demo_rows(20), model={"path": str(model)})


def config(**changes):
    def make(model):
        file = model / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return make


def write(name, data):
    return lambda model: (model / name).write_bytes(data)


def without(name):
    return lambda model: (model / name).unlink()


def truncated(model):
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def tensors_lacking(model):
    from safetensors.torch import load_file, save_file

    file = model / "model.safetensors"
    tensors = load_file(file)
    del tensors["encoder.layer.0.attention.self.query.weight"]
    save_file(tensors, file, metadata={"format": "pt"})


def pickled(model):
    (model / "model.safetensors").rename(model / "pytorch_model.bin")


FOLDERS = [
    ("no weights", without("model.safetensors"), ("expected weights as *.safetensors", "Convert")),
    ("pickled weights", pickled, ("pickled weights are never loaded",)),
    ("truncated weights", truncated, ("transformers loads", "SafetensorError", "Copy the folder")),
    ("no weights inside", write("model.safetensors", b"x"), ("SafetensorError", "Copy the")),
    ("tensors lacking", tensors_lacking, ("expected all weights", "attention.self.query.weight")),
    ("no tokenizer", without("tokenizer.json"), ("expected a tokenizer.json", "Save the")),
    ("a broken tokenizer", write("tokenizer.json", b"{"), ("expected a tokenizer that", "anew")),
    ("no config", without("config.json"), ("model.path: expected a config.json", "got none")),
    ("a broken config", write("config.json", b"{"), ("expected JSON in", "config.json")),
    ("a list as config", write("config.json", b"[]"), ("expected a JSON object in", "got a list")),
    ("an unknown architecture", config(model_type="nonsense"), ("`nonsense`", "model.factory")),
    ("code of its own", config(auto_map={"AutoModel": "m.M"}), ("auto_map in", "model.factory")),
    ("a config of other sizes", config(hidden_size=16), ("model.path: expected", "model")),
    ("an unknown module", write("modules.json", b'[{"type": "a.Dense", "path": "1"}]'), ("Dense",)),
]

VALUES = [
    (("model.path=gone",), ("model.path: expected a model folder, and there is none at", "gone")),
    (("model.path=in.parquet",), ("expected a model folder, and there is none at",)),
    (("model.path=package:not_there/x",), ("an installed Python package 'not_there'", "Install")),
    (("model.path=hf://some/model",), ("model.path: expected a path on this machine",)),
    (("model.max_length=17",), ("expected at most the model's 16 positions, got 17",)),
    (("model.max_length=2",), ("expected more than the 2 special tokens of each row, got 2",)),
    (("model.task=classify",), ("expected all weights for task 'classify'", "right task")),
    (("model.factory=not_there:build",), ("ModuleNotFoundError", "Install the module")),
    (("model.factory=tiny_models:nope",), ("expected MODULE:FUNCTION", "'nope'", "PYTHONPATH")),
    (("model.factory=tiny_models:burst",), ("it raised RuntimeError: no such weights. Mend it",)),
    (("model.factory=tiny_models:not_a_module",), ("to give a torch.nn.Module, and it gave: int",)),
    (("model.factory=tiny_models:odd",), ("expected hidden (B, L, H) or pooled", "something")),
    (
        ("model.factory=tiny_models:build", "model.options={width: 3}"),
        ("TypeError", "unexpected keyword argument 'width'", "model.options"),
    ),
]


@pytest.mark.parametrize(
    ("make", "words"), [row[1:] for row in FOLDERS], ids=[row[0] for row in FOLDERS]
)
def test_a_model_folder(tmp_path, model, job, make, words):
    make(model)
    check(tmp_path, ("plan", job), 2, ("model.path: expected", *words))


@pytest.mark.parametrize(("overrides", "words"), VALUES, ids=[" ".join(row[0]) for row in VALUES])
def test_a_value(tmp_path, job, overrides, words):
    sets = [word for override in overrides for word in ("--set", override)]
    check(tmp_path, ("plan", job, *sets), 2, words)


def test_more_classes_than_the_model_has(tmp_path, model, job):
    config(id2label={"0": "yes", "1": "no"})(model)
    sets = ("--set", "model.task=classify", "--set", "model.top_k=3")
    words = ("model.top_k: expected at most the model's 2 classes, got 3",)
    check(tmp_path, ("plan", job, *sets), 2, words)


@pytest.mark.parametrize("prefect", [False, True], ids=["no Prefect", "Prefect"])
def test_what_a_worker_finds_is_said_as_plainly_and_leaves_nothing(tmp_path, cli, job, prefect):
    run = cli.run(job, "--set", "model.factory=tiny_models:burst", prefect=prefect)
    own = [line for line in run.stderr.splitlines() if not line.startswith("headrace: ")]
    assert own == []
    refused(run, 2, "model.factory: expected tiny_models:burst", "RuntimeError: no such weights.")
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_not_there(tmp_path, job):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    words = ("compute.device: expected a CUDA GPU that torch can use", "headrace doctor")
    check(tmp_path, ("plan", job, "--set", "compute.device=cuda"), 2, words)
