"""Events in other bytes that mean the same, and events whose content is spoiled. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Rewrite = Callable[[dict[str, Any]], dict[str, Any]]

# --- bytes that mean the same


def commented(data: bytes, first: bool) -> list[bytes]:
    return [b":\n\n:\n\n" + data]


def split(data: bytes, first: bool) -> list[bytes]:
    """One write a byte where a sign has several, else one write."""
    return [bytes((byte,)) for byte in data] if not data.isascii() else [data]


def crlf(data: bytes, first: bool) -> list[bytes]:
    body = data.removeprefix(b"data: ").rstrip(b"\n")
    head = b"\xef\xbb\xbfretry: 3000\r\n" if first else b""
    return [head + b"event: message\r\ndata:" + body + b"\r\n\r\n"]


# --- other contents


def each_choice(change: Callable[[dict[str, Any]], None]) -> Rewrite:
    def rewrite(value: dict[str, Any]) -> dict[str, Any]:
        for choice in value.get("choices") or ():
            change(choice)
        return value

    return rewrite


def _said(choice: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = choice.get("delta") or choice.get("message") or {}
    return said


def finish_stop(choice: dict[str, Any]) -> None:
    if choice.get("finish_reason") == "tool_calls":
        choice["finish_reason"] = "stop"


def no_finish(choice: dict[str, Any]) -> None:
    choice["finish_reason"] = None


def named_reasoning(name: str) -> Callable[[dict[str, Any]], None]:
    def change(choice: dict[str, Any]) -> None:
        said = _said(choice)
        reasoning = said.pop("reasoning", None) or said.pop("reasoning_content", None)
        if reasoning:
            said[name] = reasoning

    return change


def each_call(change: Callable[[dict[str, Any]], None]) -> Rewrite:
    def each(choice: dict[str, Any]) -> None:
        for call in _said(choice).get("tool_calls") or ():
            change(call)

    return each_choice(each)


def cut_arguments(call: dict[str, Any]) -> None:
    """The last brace and quote of the arguments are lost."""
    arguments = call["function"].get("arguments") or ""
    call["function"]["arguments"] = arguments.rstrip().rstrip("}").rstrip().rstrip('"')


def no_arguments(call: dict[str, Any]) -> None:
    call["function"]["arguments"] = ""


def index_zero(call: dict[str, Any]) -> None:
    call["index"] = 0


def no_id(call: dict[str, Any]) -> None:
    call.pop("id", None)


def empty_name(call: dict[str, Any]) -> None:
    call["function"].setdefault("name", "")


def small_prompt(value: dict[str, Any]) -> dict[str, Any]:
    """The prompt was cut to the server's window."""
    usage = value.get("usage")
    if usage and usage["prompt_tokens"] > 2051:
        usage["prompt_tokens"] = 2051
        usage["total_tokens"] = 2051 + usage["completion_tokens"]
    return value


def unstreamed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**fields, "stream": False}


def without_usage(value: dict[str, Any]) -> dict[str, Any]:
    value.pop("usage", None)
    value.pop("timings", None)
    return value
