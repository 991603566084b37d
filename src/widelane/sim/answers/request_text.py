"""What a request says, as text: answerers read it as a model would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from widelane.records import ChatRequest, Message

_MODEL = "assistant"
_READ_BY_MODEL = ("system", "developer", "user")


def message_text(message: Message) -> str:
    """The text of a message, its parts joined; empty where it has none (images, only tool calls)."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "\n".join(text for text in parts if isinstance(text, str))


def last_words(request: ChatRequest) -> str:
    """The last message of the user, or the prompt."""
    if request.prompt is not None:
        return request.prompt
    said = [message_text(message) for message in request.messages if message.get("role") == "user"]
    return said[-1] if said else ""


def asked_text(request: ChatRequest) -> str:
    """Everything that the model was told, without its own words and without tool results."""
    if request.prompt is not None:
        return request.prompt
    told = [message_text(message) for message in request.messages if message.get("role") in _READ_BY_MODEL]
    return "\n".join(told)


def opening_text(request: ChatRequest) -> str:
    """What was said before the model's first words: the same in every turn of one conversation."""
    if request.prompt is not None:
        return request.prompt
    opening: list[str] = []
    for message in request.messages:
        if message.get("role") == _MODEL:
            break
        opening.append(message_text(message))
    return "\n".join(opening)


def turns_before(request: ChatRequest) -> int:
    """How often the model has spoken already."""
    return sum(message.get("role") == _MODEL for message in request.messages)


def wanted_schema(request: ChatRequest) -> Mapping[str, Any] | None:
    """The JSON schema that the answer's text must obey; None when any text will do.

    Understood: `response_format` as `json_schema` (nested or flat) or `json_object`, vLLM's `guided_json` and
    `structured_outputs`, llama.cpp's `json_schema`.
    """
    stated = request.response_format
    if stated is not None:
        kind = stated.get("type")
        if kind == "json_schema" or (kind == "json_object" and "schema" in stated):
            inner = stated.get("json_schema")
            schema = inner.get("schema") if isinstance(inner, Mapping) else stated.get("schema")
            return schema if isinstance(schema, Mapping) else {"type": "object"}
        return {"type": "object"} if kind == "json_object" else None
    outputs = request.extra.get("structured_outputs")
    within = outputs.get("json") if isinstance(outputs, Mapping) else None
    for schema in (request.extra.get("guided_json"), request.extra.get("json_schema"), within):
        if isinstance(schema, Mapping):
            return schema
    return None


def may_think(request: ChatRequest) -> bool:
    """False when the request switches thinking off in one of the ways that servers know."""
    template = request.extra.get("chat_template_kwargs")
    template = template if isinstance(template, Mapping) else {}
    switches = (template.get("enable_thinking"), template.get("thinking"), request.extra.get("think"))
    efforts = (request.extra.get("reasoning_effort"), template.get("reasoning_effort"))
    budget = request.extra.get("reasoning_budget")
    return not any(switch is False for switch in switches) and "none" not in efforts and budget != 0
