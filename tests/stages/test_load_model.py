import shutil

import pytest
import torch

from headrace.schemas.errors import JobError
from headrace.stages.load_model import load_module
from headrace.stages.model_folder import open_model_folder

LABELS = {0: "no", 1: "yes", 2: "maybe"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory, write_model):
    """Save a tiny BERT as an encoder and as a classifier, with random weights."""
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    config = BertConfig(
        vocab_size=11,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        id2label=LABELS,
    )
    torch.manual_seed(0)
    made = {
        "encoder": BertModel(config, add_pooling_layer=False),
        "classifier": BertForSequenceClassification(config),
    }
    for name, module in made.items():
        folder = tmp_path_factory.mktemp(name)
        write_model(folder)
        module.save_pretrained(folder)
        made[name] = (folder, module.eval())
    return made


def load(make_job, folder, precision="fp32", **changes):
    job = make_job(model__path=str(folder), **changes)
    return load_module(job.model, open_model_folder(job.model), "cpu", precision)


IDS = torch.tensor([[2, 4, 5, 3]])


def test_an_encoder_is_loaded_as_it_was_saved(make_job, saved):
    folder, original = saved["encoder"]
    module = load(make_job, folder)
    assert not module.training
    assert not any(weight.requires_grad for weight in module.parameters())
    assert {weight.dtype for weight in module.parameters()} == {torch.float32}
    with torch.inference_mode():
        expected = original(input_ids=IDS).last_hidden_state
        got = module(input_ids=IDS, attention_mask=torch.ones_like(IDS)).last_hidden_state
    torch.testing.assert_close(got, expected)


def test_a_classifier_is_loaded_with_its_head(make_job, saved):
    folder, original = saved["classifier"]
    module = load(make_job, folder, model__task="classify")
    with torch.inference_mode():
        torch.testing.assert_close(module(input_ids=IDS).logits, original(input_ids=IDS).logits)


def test_weights_come_in_the_precision_of_the_plan(make_job, saved):
    module = load(make_job, saved["encoder"][0], "bf16")
    assert {weight.dtype for weight in module.parameters()} == {torch.bfloat16}


def test_a_head_that_is_not_there_is_never_made_up(make_job, saved):
    with pytest.raises(JobError, match=r"classifier\..*Is it the right task"):
        load(make_job, saved["encoder"][0], model__task="classify")


def test_weights_of_another_shape_are_refused(make_job, saved, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(saved["encoder"][0], folder)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"hidden_size": 8', '"hidden_size": 12'))
    with pytest.raises(JobError, match=r"model\.path"):
        load(make_job, folder)


def test_damaged_weights_are_named(make_job, saved, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(saved["encoder"][0], folder)
    (folder / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    with pytest.raises(JobError, match=r"model\.path: expected a model that transformers loads"):
        load(make_job, folder)


@pytest.fixture
def own(tmp_path, monkeypatch, write_model, make_job):
    """Write a user's module, and load by one of its factories."""
    (tmp_path / "users_own.py").write_text(
        "import torch\n"
        "def build(device, dtype, width=3):\n"
        "    return torch.nn.Linear(2, width, device=device, dtype=dtype)\n"
        "def number(device, dtype):\n"
        "    return 42\n"
        "def fails(device, dtype):\n"
        "    raise RuntimeError('no weights here')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    folder = write_model(tmp_path / "m")

    def make(factory, precision="fp32", **options):
        changes = {"model__options": options} if options else {}
        return load(make_job, folder, precision, model__factory=factory, **changes)

    return make


def test_a_factory_gets_device_precision_and_options(own):
    module = own("users_own:build", "bf16", width=5)
    assert module.weight.shape == (5, 2)
    assert module.weight.dtype == torch.bfloat16
    assert not module.training
    assert not module.weight.requires_grad


@pytest.mark.parametrize("factory", ["no_such_module_here:build", "users_own:nothing"])
def test_a_factory_that_is_not_there_is_named(own, factory):
    with pytest.raises(JobError, match=rf"model\.factory: .*{factory}"):
        own(factory)


def test_a_factory_must_give_a_module(own):
    with pytest.raises(JobError, match=r"torch\.nn\.Module, and it gave: int"):
        own("users_own:number")


@pytest.mark.parametrize(
    ("factory", "options", "words"),
    [("users_own:fails", {}, "no weights here"), ("users_own:build", {"wdth": 5}, "wdth")],
)
def test_what_a_factory_raises_is_the_job_s_fault(own, factory, options, words):
    with pytest.raises(JobError, match=rf"model\.factory.*{words}"):
        own(factory, **options)
