"""Text of strangers, safe to show: what a server says never moves a cursor or reorders a line."""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with control and bidirectional characters as U+FFFD; tabs and line feeds stay.

    Halves of surrogate pairs go too: Python reads bytes of a file's name that are no UTF-8 as such, and none can be
    written out again.
    """
    return _UNSAFE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """The same on one line: as it may stand in a comment or as a name."""
    return " ".join(printable(text).split())


def is_plain(text: str) -> bool:
    """Whether the text stands on one line as it is: nothing in it needs replacing, and it breaks nowhere."""
    return printable(text) == text and "\t" not in text and text.splitlines() in ([], [text])
