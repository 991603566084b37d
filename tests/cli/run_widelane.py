"""Run the installed command as a user does."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

WIDELANE = (sys.executable, "-m", "widelane")


def environment(runs: Path, **more: str) -> dict[str, str]:
    """The caller's environment without a server of its own, with runs kept in `runs`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "WIDELANE_RUNS"))}
    return {**kept, "WIDELANE_RUNS_DIR": str(runs), "COLUMNS": "100", **more}


def widelane(*arguments: str | Path, env: Mapping[str, str], timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """The finished process."""
    command = [*WIDELANE, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=dict(env), timeout=timeout_s, check=False)
