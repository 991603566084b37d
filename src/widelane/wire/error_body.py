"""What an error body says, in whichever of the usual shapes it comes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from widelane.wire.json_text import decode_json

_QUOTED_CHARS = 200
_HTML = re.compile(r"(?:<!--[\s\S]*?-->\s*|<\?xml[^>]*>\s*)*<(?:!doctype|html|head|body)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    """An error as the server worded it.

    Attributes:
        message: its text; for a body that is no JSON, the first 200 characters.
        kind: its `type` in lower case, or a `code` that is a word; empty when it has none.
        code: a numeric `code` (an HTTP status), None when there is none.
        param: the request's field it is about, None when it does not say.
        n_prompt, n_ctx: llama.cpp's token counts, None elsewhere.
        is_html, is_json: what the body is.
        retry_after_s: seconds until a model is loaded, where the body estimates it.
    """

    message: str = ""
    kind: str = ""
    code: int | None = None
    param: str | None = None
    n_prompt: int | None = None
    n_ctx: int | None = None
    is_html: bool = False
    is_json: bool = False
    retry_after_s: float | None = None


def read_error_body(body: bytes) -> ErrorBody:
    """The error in a reply's body, JSON or not."""
    try:
        value = decode_json(body)
    except ValueError:
        text = body.decode("utf-8", "replace").lstrip("\ufeff").strip()
        return ErrorBody(message=quoted(text), is_html=bool(_HTML.match(text)))
    return read_error(value)


def read_error(value: Any) -> ErrorBody:
    """The error in a decoded JSON value.

    Shapes: `{"error": {…}}`, `{"error": "…"}`, `{"object": "error", …}`, FastAPI's `{"detail": …}`, `{"message": …}`,
    `{"errors": […]}`, and a list of any of them.
    """
    while isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, Mapping):
        return ErrorBody(message=quoted(_text(value)), is_json=True)
    outer = value
    while isinstance(value.get("error"), Mapping):
        value = value["error"]
    message = next((_text(value[key]) for key in _MESSAGE_KEYS if value.get(key)), "")
    kind, code = "", None
    for candidate in (value.get("type"), value.get("code"), value.get("error_type"), value.get("status")):
        number = _number(candidate)
        if number is not None:
            code = number if 400 <= number <= 599 and code is None else code
        elif isinstance(candidate, str) and not kind:
            kind = candidate.lower()
    param = value.get("param")
    estimate = outer.get("estimated_time")
    return ErrorBody(
        message=message or quoted(_text(value)),
        kind=kind,
        code=code,
        param=param.removeprefix("body.") if isinstance(param, str) and param else _detail_param(value.get("detail")),
        n_prompt=_number(value.get("n_prompt_tokens")),
        n_ctx=_number(value.get("n_ctx")),
        is_json=True,
        retry_after_s=float(estimate) if isinstance(estimate, int | float) and estimate >= 0 else None,
    )


def quoted(text: str) -> str:
    """The first 200 characters, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _QUOTED_CHARS else line[:_QUOTED_CHARS] + "…"


_MESSAGE_KEYS = ("message", "error", "detail", "msg", "errors", "error_message", "description")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(_text(item) for item in value)
    if isinstance(value, Mapping):
        for key in _MESSAGE_KEYS:
            if value.get(key):
                place = value.get("loc")
                where = f" ({'.'.join(str(part) for part in place)})" if isinstance(place, list) else ""
                return _text(value[key]) + where
        return ", ".join(f"{key}: {_text(item)}" for key, item in value.items())
    return "" if value is None else str(value)


def _detail_param(detail: Any) -> str | None:
    """The field in FastAPI's `{"detail": [{"loc": ["body", "n"], …}]}`."""
    if isinstance(detail, list) and detail and isinstance(detail[0], Mapping):
        place = detail[0].get("loc")
        names = [part for part in place if isinstance(part, str) and part != "body"] if isinstance(place, list) else []
        return names[0] if names else None
    return None


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() else None
