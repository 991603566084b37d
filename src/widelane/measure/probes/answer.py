"""What a server really sent: the fields of one reply as they stand in its body, before any client repairs them.

The streaming client moves leaked thinking out of the text and recovers tool calls. A probe wants to see the leak
itself, so it reads whole bodies, JSON or SSE, through this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from widelane.records import HttpReply
from widelane.wire.sse import ErrorPayload, SSEDecoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The fields of one reply, first choice, nothing moved and nothing repaired.

    Attributes:
        reasoning: `reasoning_content` or `reasoning`, whichever the server uses.
        tool_calls: name and arguments (as sent) of each call.
        finish: None when the server gave no finish reason.
        choices: how many choices came.
        error: the server's error message, whether as a status or as an event inside a stream; None when there is none.
        streamed: True when the body was an event stream.
        done: True when a stream ended with `[DONE]`; None for a JSON body.
    """

    status: int
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[tuple[str, str], ...] = ()
    finish: str | None = None
    choices: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    error: str | None = None
    streamed: bool = False
    done: bool | None = None

    @property
    def refused(self) -> bool:
        """True when the server refused the request (4xx)."""
        return 400 <= self.status < 500

    @property
    def text(self) -> str:
        """Everything the model wrote, reasoning first."""
        return self.reasoning + self.content


def answer_of(reply: HttpReply) -> Answer:
    """The answer in a reply body, JSON or SSE; a body that is neither is an error with its first characters."""
    if _is_event_stream(reply):
        decoder = SSEDecoder()
        return _from_events(reply.status, [*decoder.feed(reply.body), *decoder.rest()])
    body = reply.json()
    if not isinstance(body, dict):
        text = reply.body[:120].decode("utf-8", "replace")
        return Answer(status=reply.status, error=f"the reply is not JSON: {text!r}")
    return _from_json(reply.status, body)


def _is_event_stream(reply: HttpReply) -> bool:
    return "event-stream" in reply.headers.get("content-type", "") or reply.body.startswith((b"data:", b": "))


def _from_json(status: int, body: Mapping[str, Any]) -> Answer:
    choices = _dicts(body.get("choices"))
    first = choices[0] if choices else {}
    message = first.get("message") or {"content": first.get("text")}
    answer = Answer(
        status=status,
        content=_text(message.get("content")),
        reasoning=_reasoning(message),
        tool_calls=tuple(_call(call) for call in _dicts(message.get("tool_calls"))),
        finish=first.get("finish_reason"),
        choices=len(choices),
        error=_error(body, status),
    )
    return _with_usage(answer, body.get("usage"))


def _from_events(status: int, payloads: Iterable[bytes]) -> Answer:
    gathered = _Gathered(status)
    for payload in payloads:
        gathered.take(payload)
    return gathered.answer()


class _Gathered:
    """A stream's events, put together as they come."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._content = self._reasoning = ""
        self._finish: str | None = None
        self._error: str | None = None
        self._done = False
        self._usage: Any = None
        self._calls: dict[int, tuple[str, str]] = {}
        self._indexes: set[int] = set()

    def take(self, payload: bytes) -> None:
        """One event."""
        if payload.strip() == b"[DONE]":
            self._done = True
            return
        event = _decode(payload)
        named_error = str(dict(event)) if isinstance(payload, ErrorPayload) else None
        self._error = self._error or _error(event, self._status) or named_error
        self._usage = event.get("usage") or self._usage
        for choice in _dicts(event.get("choices")):
            index = choice.get("index") or 0
            self._indexes.add(index)
            if index == 0:
                self._take_choice(choice)

    def answer(self) -> Answer:
        """All of it."""
        answer = Answer(
            status=self._status,
            content=self._content,
            reasoning=self._reasoning,
            tool_calls=tuple(self._calls[index] for index in sorted(self._calls)),
            finish=self._finish,
            choices=len(self._indexes),
            error=self._error,
            streamed=True,
            done=self._done,
        )
        return _with_usage(answer, self._usage)

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta") or {"content": choice.get("text")}
        self._content += _text(delta.get("content"))
        self._reasoning += _reasoning(delta)
        self._finish = choice.get("finish_reason") or self._finish
        for fragment in _dicts(delta.get("tool_calls")):
            index = fragment.get("index") or 0
            name, arguments = self._calls.get(index, ("", ""))
            more_name, more_arguments = _call(fragment)
            self._calls[index] = (name or more_name, arguments + more_arguments)


def _decode(payload: bytes) -> Mapping[str, Any]:
    try:
        event = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"error": f"an event is not JSON: {payload[:80]!r}"}
    return event if isinstance(event, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _reasoning(message: Mapping[str, Any]) -> str:
    return _text(message.get("reasoning_content")) or _text(message.get("reasoning"))


def _call(call: Mapping[str, Any]) -> tuple[str, str]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if isinstance(arguments, dict):  # Ollama's native form
        arguments = msgspec.json.encode(arguments).decode()
    return _text(function.get("name")), _text(arguments)


def _with_usage(answer: Answer, usage: Any) -> Answer:
    if not isinstance(usage, dict):
        return answer
    details = usage.get("prompt_tokens_details")
    return replace(
        answer,
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens"),
        cached_tokens=details.get("cached_tokens") if isinstance(details, dict) else None,
    )


def _error(body: Mapping[str, Any], status: int) -> str | None:
    error = body.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error)
    if error:
        return str(error)
    if status >= 400:
        return str(body.get("message") or body.get("detail") or body)[:300]
    return None
