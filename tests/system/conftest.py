"""The real command line, in a folder of its own."""

import os
import shutil
import sys

import pytest
import s3_server
from cli_support import MINILM, Cli


@pytest.fixture(autouse=True, scope="session")
def _own_core():
    """Keep each test process, and all that it starts, to one core.

    Two OpenMP teams on the same cores mostly wait for each other.
    """
    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    cores = sorted(os.sched_getaffinity(0))
    if name.startswith("gw"):
        os.sched_setaffinity(0, {cores[int(name.removeprefix("gw")) % len(cores)]})


@pytest.fixture
def cli(tmp_path, cli_in):
    """Runs that start workers of their own."""
    return cli_in(tmp_path)


@pytest.fixture(scope="session")
def cli_in():
    return lambda folder: Cli(folder, folder / "prefect")


@pytest.fixture
def quick(tmp_path, quick_in):
    """Runs on a Dask cluster that is there already: for tests of what a run does, not where."""
    return quick_in(tmp_path)


@pytest.fixture(scope="session")
def quick_in(cluster):
    return lambda folder: Cli(folder, folder / "prefect", cluster)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """The scheduler's address of a cluster with one worker process, as a user may keep one."""
    from distributed.deploy.subprocess import SubprocessCluster

    env = Cli(tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("prefect")).env
    with pytest.MonkeyPatch.context() as patch:
        # A worker takes over the path that its nanny has had from the start.
        for name in ("PYTHONPATH", "HF_HUB_OFFLINE", "DO_NOT_TRACK"):
            patch.setenv(name, env[name])
        for name, value in s3_server.ENVIRONMENT.items():  # for jobs on the tests' store
            patch.setenv(name, value)
        started = SubprocessCluster(
            n_workers=1,
            threads_per_worker=3,
            dashboard_address=None,
            worker_kwargs={"memory_limit": 0},
            silence_logs=50,
        )
    with started:
        yield started.scheduler_address


@pytest.fixture
def say(capsys):
    """Write a figure where a person sees it."""

    def write(text):
        with capsys.disabled():
            sys.stderr.write(f"\n{text}\n")

    return write


def _save_classifier(folder, **config):
    """A small BERT classifier with random weights, and MiniLM's tokenizer beside it."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    from headrace.stages.model_folder import find_model

    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        id2label=dict(enumerate(["animal", "food", "plant", "place", "act"])),
        initializer_range=0.2,  # of wilder weights fp32 itself is not sure
        **config,
    )
    BertForSequenceClassification(config).eval().save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        shutil.copy(find_model(MINILM) / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    """Gives a row one of five labels."""
    return _save_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="session")
def multi_label_classifier(tmp_path_factory):
    """Gives a row any number of five labels."""
    folder = tmp_path_factory.mktemp("multi_label_classifier")
    return _save_classifier(folder, problem_type="multi_label_classification")
