"""The end of a server's log, for a person who asks why it died."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

TAIL_BYTES: Final = 65536
SHOWN_LINES: Final = 8
SHOWN_CHARACTERS: Final = 400
"""Of one line: an engine may print a whole request, or what is no text at all."""
# An error in llama.cpp's log ("0.00.072.732 E srv    load_model: failed …"), or the end of a traceback.
ERROR_LINE: Final = re.compile(r"^[\d.]+ E |\berror\b|\bfailed\b|Error: ", re.IGNORECASE)
LOG_TIME: Final = re.compile(r"^[\d.]+ ")


def last_words(log_path: Path) -> str:
    """The log's last errors, else its last lines, and where the log is."""
    lines = tail(log_path)
    telling = [line for line in lines if ERROR_LINE.search(line)] or lines
    # llama.cpp tries twice to load a model and says the same twice, at two times.
    once = dict.fromkeys(LOG_TIME.sub("", line) for line in telling)
    shown = "".join(f"  {_cut(line)}\n" for line in list(once)[-SHOWN_LINES:])
    return f"{shown}Its whole log: {log_path}"


def _cut(line: str) -> str:
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}…"


def tail(log_path: Path) -> list[str]:
    """The last lines of a log, at most 64 KiB of it."""
    with log_path.open("rb") as file:
        file.seek(max(0, log_path.stat().st_size - TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()
