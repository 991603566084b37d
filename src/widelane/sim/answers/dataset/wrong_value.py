"""Values that are certainly not the right one, and look as if they might be."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

_WHOLE: Final = re.compile(r"(\D{0,2}?)(-?)(\d[\d,]*)(\D{0,3})")
_DECIMAL: Final = re.compile(r"-?\d+\.\d+")
_WORDS: Final = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)+")
_OPPOSITES: Final = {
    "true": "false", "yes": "no", "valid": "invalid", "plausible": "implausible", "even": "odd", "positive": "negative",
}  # fmt: skip
_BACK: Final = {right: left for left, right in _OPPOSITES.items()}
_MOST_OFF: Final = 9


def wrong_value(key: str, rng: random.Random, *, options: Sequence[str] = (), literal: bool = False) -> str:
    """A value other than `key`, of its kind.

    Args:
        options: what there is to choose from.
        literal: it must be a Python literal.
    """
    others = [option for option in options if option != key]
    if others:
        return rng.choice(others)
    off = rng.randint(1, _MOST_OFF)
    key = key.strip()
    if (opposite := _opposite(key)) is not None:
        return opposite
    if match := _WHOLE.fullmatch(key):
        return match[1] + _moved(match[2] + match[3], off, rng) + match[4]
    if _DECIMAL.fullmatch(key):
        return f"{float(key) + off:.{len(key.partition('.')[2])}f}"
    if literal:
        return f"[{key}, {off}]"  # a list is never equal to its own first item
    if _WORDS.fullmatch(key) and (turned := " ".join(reversed(key.split()))) != key:
        return turned
    return f"{key} + {off}"


def _opposite(key: str) -> str | None:
    word = _OPPOSITES.get(key.lower()) or _BACK.get(key.lower())
    if word is None:
        return None
    return word.upper() if key.isupper() and len(key) > 1 else word.capitalize() if key[0].isupper() else word


def _moved(number: str, off: int, rng: random.Random) -> str:
    """The whole number a little larger or smaller, its commas and leading zeros kept; 0 to 999 stays there."""
    value = int(number.replace(",", ""))
    moved = value + (off if rng.random() < 0.5 or value < off <= 999 - value else -off)
    if 0 <= value <= 999 < moved:
        moved = value - off
    if "," in number:
        return f"{moved:,}"
    digits = number.lstrip("-")
    return f"{moved:0{len(number)}d}" if digits.startswith("0") and len(digits) > 1 else str(moved)
