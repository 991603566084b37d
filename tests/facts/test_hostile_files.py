"""Files made to cost time or memory end in one clear error, within a second and 200 MB."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.facts.hostile_files import HOSTILE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_a_hostile_file_costs_no_more_than_a_second_and_200_mb(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    """CPU time, so that a busy machine does not fail it; the interpreter's own memory counts."""
    path = make(tmp_path)
    command = [sys.executable, "-m", "tests.facts.hostile_files", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    (told,) = json.loads(done.stdout).values()
    assert told["message"], f"{path} was read as a model"
    assert str(tmp_path) in told["message"]
    assert len(told["message"]) < 600
    assert told["cpu_s"] < 1.0
    assert told["peak_mb"] < 200
