"""The body of a call, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from widelane.errors import BadRequest, UsageError
from widelane.records import ChatRequest, Message
from widelane.wire.json_text import decode_json


def request_fields(request: ChatRequest, model: str | None, *, include_usage: bool = True) -> dict[str, Any]:
    """The body's fields. `model` is what to send when the request names none.

    Raises:
        UsageError: the request has neither or both of messages and prompt.
        BadRequest: a tool call in the history has arguments that are no JSON object.
    """
    if bool(request.messages) == (request.prompt is not None):
        raise UsageError("A request has either messages or a prompt.")
    fields: dict[str, Any] = {"model": request.model or model}
    if request.prompt is None:
        fields["messages"] = safe_history(request.messages)
    else:
        fields["prompt"] = request.prompt
    fields["stream"] = request.stream
    if request.stream and include_usage:
        fields["stream_options"] = {"include_usage": True}
    optional: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "stop": list(request.stop) or None,
        "n": request.n if request.n != 1 else None,
        "tools": list(request.tools) or None,
        "tool_choice": request.tool_choice,
        "response_format": request.response_format,
        # /v1/completions wants a number of alternatives where chat wants yes or no.
        "logprobs": (True if request.prompt is None else 1) if request.logprobs else None,
    }
    fields.update({name: value for name, value in optional.items() if value is not None})
    fields.update(request.extra)
    return {name: value for name, value in fields.items() if name != "model" or value is not None}


def encode_body(fields: Any) -> bytes:
    """The fields as JSON.

    Raises:
        UsageError: something in them is no JSON (a set of objects, a lone surrogate).
    """
    try:
        return msgspec.json.encode(fields)
    except (TypeError, ValueError, UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise UsageError(f"The request cannot be written as JSON: {error}.") from error


def safe_history(messages: Sequence[Message]) -> list[Message]:
    """The messages, every tool call's arguments a string that holds a JSON object.

    One call with broken arguments in the history makes vLLM refuse every later turn, so it is refused here, before
    anything is sent.

    Raises:
        BadRequest: naming the message and the call.
    """
    return [_safe_message(message, place) for place, message in enumerate(messages)]


def _safe_message(message: Message, place: int) -> Message:
    calls = message.get("tool_calls")
    if not isinstance(calls, (list, tuple)):
        return message
    return {
        **message,
        "tool_calls": [_safe_call(call, f"messages[{place}].tool_calls[{i}]") for i, call in enumerate(calls)],
    }


def _safe_call(call: Any, place: str) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise BadRequest(f"{place} has no `function`; nothing was sent.")
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):
        text = encode_body(arguments).decode()
    elif arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        text = "{}"
    elif isinstance(arguments, str) and _is_object(arguments):
        text = arguments
    else:
        raise BadRequest(
            f"{place}.function.arguments is no JSON object: {arguments!r:.80}. Nothing was sent, because a server that "
            "is given it refuses this request and every later one.",
            hint='Leave the call out of the history, or send "{}" and say in the tool message what was wrong.',
        )
    return {**call, "function": {**function, "arguments": text}}


def _is_object(text: str) -> bool:
    try:
        return isinstance(decode_json(text.encode()), dict)
    except ValueError:
        return False
