"""Fixtures that every test folder shares."""

from pathlib import Path

import pytest

from tests.data_path import DATA, MISSING


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of shared data; skips, loudly, where it is missing."""
    if DATA is None:
        pytest.skip(MISSING)
    return DATA
