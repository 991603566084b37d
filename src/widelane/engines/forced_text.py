"""A text as the grammar or pattern that allows nothing else."""

from __future__ import annotations

import re

_GBNF_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def gbnf(text: str) -> str:
    """llama.cpp's grammar language: a root rule that is one string literal. Other control characters go as `\\xHH`."""
    return f'root ::= "{"".join(_gbnf_char(char) for char in text)}"'


def regex(text: str) -> str:
    """A regular expression that matches `text` alone; line ends are written out, as guided decoders want them."""
    escaped = re.sub(r"[\\^$.|?*+()\[\]{}]", lambda match: "\\" + match[0], text)
    return escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _gbnf_char(char: str) -> str:
    if char in _GBNF_ESCAPES:
        return _GBNF_ESCAPES[char]
    return f"\\x{ord(char):02X}" if ord(char) < 0x20 or ord(char) == 0x7F else char
