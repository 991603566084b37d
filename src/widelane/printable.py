"""Text of strangers, safe to show: what a server says never moves a cursor or reorders a line."""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with control and bidirectional characters as U+FFFD; tabs and line feeds stay."""
    return _UNSAFE.sub("\ufffd", text)
