"""Where the benchmark data and recordings lie: the setting `WIDELANE_DATA`, by default beside the checkout."""

import os
from pathlib import Path

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"
_STATED = Path(os.environ.get("WIDELANE_DATA") or _DEFAULT).resolve()

DATA: Path | None = _STATED if _STATED.is_dir() else None
"""The data folder, None when it is not there: tests that need it then skip and say so."""
MISSING = f"no data folder at {_STATED}: set WIDELANE_DATA"
