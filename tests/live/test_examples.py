"""The examples run as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))
pytestmark = pytest.mark.live


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_example_runs(example, cache_dir):
    result = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=110, check=False)
    assert result.returncode == 0, result.stderr
    assert "times as fast" in result.stdout
