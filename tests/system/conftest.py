"""The real command line, in a folder of its own."""

import os

import pytest
from cli_support import Cli


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
    return cli_in(tmp_path)


@pytest.fixture(scope="session")
def cli_in():
    return lambda folder: Cli(folder, folder / "prefect")
