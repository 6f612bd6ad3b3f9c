"""The public names, and what importing them must not load."""

import importlib.metadata
import json
import subprocess
import sys

import pytest

import headrace

HEAVY = (
    "torch",
    "dask",
    "distributed",
    "prefect",
    "transformers",
    "tokenizers",
    "pandas",
    "cudf",
    "cupy",
    "rmm",
    "triton",
)

PUBLIC = [
    "DamagedError",
    "HeadraceError",
    "Job",
    "JobError",
    "OtherRunError",
    "OutputError",
    "ShardError",
    "__version__",
    "load_job",
    "plan",
    "report",
    "run",
    "status",
    "verify",
]


def loaded_after(code):
    """Which heavy modules a fresh interpreter holds after some code."""
    probe = f"import json, sys\n{code}\nprint(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_the_probe_sees_what_is_loaded():
    assert loaded_after("import tokenizers") == ["tokenizers"]


@pytest.mark.parametrize(
    "module",
    ["flows.run", "flows.prefect_run", "stages.verify", "stages.holding", "stages.totals"],
)
def test_the_client_of_a_run_never_loads_torch(module):
    loaded = loaded_after(f"import headrace.{module}")
    assert not {"torch", "transformers", "tokenizers", "pandas"} & set(loaded)


@pytest.mark.parametrize(
    "code",
    [
        "import headrace",
        "import headrace; headrace.Job, headrace.JobError, headrace.load_job",
        "import headrace.schemas.plan, headrace.schemas.report, headrace.schemas.preview",
        "import headrace.stages.model_folder",
    ],
    ids=["package", "jobs", "schemas", "model folder"],
)
def test_importing_loads_nothing_heavy(code):
    assert loaded_after(code) == []


HELP = """
from headrace.flows.cli import main
sys.argv = ["headrace", *{arguments}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["verify", "--help"]], ids=str
)
def test_help_loads_nothing_heavy(arguments):
    assert loaded_after(HELP.format(arguments=arguments)) == []


def test_the_public_names_are_these():
    assert headrace.__all__ == PUBLIC
    assert dir(headrace) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_resolves(name):
    assert getattr(headrace, name) is not None
    assert getattr(headrace, name) is getattr(headrace, name)


def test_every_public_function_says_what_it_does():
    for name in PUBLIC:
        value = getattr(headrace, name)
        assert isinstance(value, str) or value.__doc__


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = headrace.nothing_of_that_name


def test_the_version_is_the_package_s():
    assert headrace.__version__ == importlib.metadata.version("headrace")
