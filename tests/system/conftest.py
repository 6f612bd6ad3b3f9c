"""The real command line, in a folder of its own."""

import pytest
from cli_support import Cli


@pytest.fixture
def cli(tmp_path):
    return Cli(tmp_path, tmp_path / "prefect")
