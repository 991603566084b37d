"""JSON as servers really write it: strict and fast first, lenient only where that fails."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode
_raw_decode = json.JSONDecoder().raw_decode


def decode_json(data: bytes) -> Any:
    """The decoded value. Bytes that are no UTF-8 become U+FFFD; NaN, infinities and lone surrogates are let through.

    Raises:
        ValueError: it is not JSON at all, or not whole.
    """
    try:
        return _decode(data)
    except ValueError:  # msgspec.DecodeError is one
        pass
    except RecursionError:
        raise ValueError("nested too deeply") from None
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def decode_prefix(text: str, start: int) -> tuple[Any, int]:
    """The JSON value at `start` (after white space) and the position behind it.

    Raises:
        ValueError: no whole value is there.
    """
    while start < len(text) and text[start].isspace():
        start += 1
    value, end = _raw_decode(text, start)
    return value, end


def mend_surrogates(text: str) -> str:
    r"""The text with surrogate pairs joined: some servers escape the halves (`\ud83c`, `\udf0d`) in two chunks."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
