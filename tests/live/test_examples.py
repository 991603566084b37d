"""The examples run as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAYS = {
    "plan_a_machine.py": "vllm serve",
    "predict_a_job.py": "verdict: parallelise",
    "sixteen_at_once.py": "times as fast",
    "test_your_own_code.py": "virtual minutes",
}
"""What each example must say at its end."""
pytestmark = pytest.mark.live


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == SAYS.keys()


@pytest.mark.parametrize("example", sorted(SAYS))
def test_the_example_runs(example, cache_dir):
    result = subprocess.run(
        [sys.executable, EXAMPLES / example], capture_output=True, text=True, timeout=110, check=False
    )
    assert result.returncode == 0, result.stderr
    assert SAYS[example] in result.stdout
