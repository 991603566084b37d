"""Plain replies: refusals in each engine's own words, and JSON and text bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from widelane.sim.events import FailReason
from widelane.sim.service import TooLong

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainReply:
    """A reply with one body."""

    status: int
    body: bytes
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)


def json_reply(value: Any, status: int = 200) -> PlainReply:
    """A value as a JSON body."""
    return PlainReply(status=status, body=msgspec.json.encode(value))


def text_reply(text: str, content_type: str = "text/plain; version=0.0.4", status: int = 200) -> PlainReply:
    """A text body."""
    return PlainReply(status=status, body=text.encode(), content_type=content_type)


def error_reply(engine: str, status: int, message: str, kind: str, **more: Any) -> PlainReply:
    """An error in the engine's form."""
    return json_reply(error_body(engine, status, message, kind, **more), status)


def error_body(engine: str, status: int, message: str, kind: str, **more: Any) -> dict[str, Any]:
    """The object of an error."""
    if engine == "llama.cpp":
        return {"error": {"code": status, "message": message, "type": kind, **more}}
    return {"error": {"message": message, "type": kind, "param": more.get("param"), "code": status}}


def bad_request(engine: str, message: str, param: str | None = None) -> PlainReply:
    """The request cannot be served as it is."""
    if engine == "llama.cpp":
        return error_reply(engine, 400, message, "invalid_request_error")
    return error_reply(engine, 400, message, "BadRequestError", param=param)


def too_long(engine: str, problem: TooLong) -> PlainReply:
    """The request does not fit the context."""
    prompt, context = problem.prompt_tokens, problem.context_tokens
    if engine == "llama.cpp":
        return error_reply(
            engine,
            400,
            f"request ({prompt} tokens) exceeds the available context size ({context} tokens), try increasing it",
            "exceed_context_size_error",
            n_prompt_tokens=prompt,
            n_ctx=context,
        )
    if problem.wanted_tokens > prompt:
        asked = problem.wanted_tokens - prompt
        words = (
            f"This model's maximum context length is {context} tokens. However, you requested {problem.wanted_tokens}"
            f" tokens ({prompt} in the messages, {asked} in the completion). Please reduce the length of the messages"
            " or completion."
        )
        return error_reply(engine, 400, words, "BadRequestError", param="max_tokens")
    words = (
        f"This model's maximum context length is {context} tokens. However, your prompt contains at least"
        f" {prompt} input tokens, which exceeds this limit even without any output tokens. Please reduce the length"
        f" of the input prompt. (parameter=input_tokens, value={prompt})"
    )
    return error_reply(engine, 400, words, "BadRequestError", param="input_tokens")


def gave_up(engine: str, reason: FailReason) -> PlainReply:
    """The engine could not finish the call."""
    if reason is FailReason.POOL_FULL:
        return error_reply(engine, 500, "Context size has been exceeded.", "server_error")
    if reason is FailReason.QUEUE_FULL:
        return error_reply(engine, 503, "The request queue is full.", "ServiceUnavailable")
    return bad_request(engine, "This request needs more of the KV cache than the server has: reduce its length.")
