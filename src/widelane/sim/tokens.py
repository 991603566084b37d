"""A tokenizer that needs no vocabulary: about as many tokens as a real one makes, and its tokens can be turned back.

English words are one token each with the space before them, as in the large vocabularies of Llama, Qwen and GPT; long
words, numbers, other alphabets and signs are more. A count from it is an estimate of a real model's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PIECE = re.compile(r" ?[A-Za-z]{1,12}|\d{1,3}| ?[^\sA-Za-z\d]{1,2}|\n+|[^\S\n]+")
_MOST_KNOWN = 200_000
"""Pieces that have numbers of their own, as many as the largest vocabularies; what comes later is spelled in bytes."""
_BYTES = 256


def count_tokens(text: str) -> int:
    """About how many tokens a text has; 0 for none."""
    return len(_PIECE.findall(text))


def pieces_of(text: str) -> list[str]:
    """The text cut into tokens; joined they are the text."""
    return _PIECE.findall(text)


class SimTokenizer:
    """Numbers for tokens and back. The same questions in the same order get the same numbers."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._piece: list[str] = []

    def encode(self, text: str) -> list[int]:
        """The text's token numbers."""
        numbers: list[int] = []
        for piece in pieces_of(text):
            number = self._number.get(piece)
            if number is None and len(self._piece) < _MOST_KNOWN:
                number = self._number[piece] = _BYTES + len(self._piece)
                self._piece.append(piece)
            if number is None:
                numbers.extend(piece.encode())
            else:
                numbers.append(number)
        return numbers

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of these tokens; a number that was never given out stands for U+FFFD."""
        parts = bytearray()
        for number in numbers:
            if 0 <= number < _BYTES:
                parts.append(number)
            elif 0 <= number - _BYTES < len(self._piece):
                parts += self._piece[number - _BYTES].encode()
            else:
                parts += "\ufffd".encode()
        return parts.decode("utf-8", "replace")
