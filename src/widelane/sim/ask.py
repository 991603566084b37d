"""A request body as a server reads it: what is asked of the model, and how the answer is to be cut and sent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from widelane.records import ChatRequest

_KNOWN = frozenset(
    {
        *("messages", "prompt", "model", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop"),
        *("n", "tools", "tool_choice", "response_format", "logprobs", "stream", "stream_options"),
    }
)
_ONE_STRING = re.compile(r'root\s*::=\s*"((?:[^"\\]|\\.)*)"\s*')
"""A GBNF grammar that allows one text."""
_HEX = re.compile(r"(?<!\\)\\x([0-9A-Fa-f]{2})")


class BadBody(Exception):
    """The body cannot be served. `field` names what is wrong with it."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request.

    Attributes:
        request: as answerers see it.
        fields: the whole body.
        chat: it came to the chat endpoint.
        include_usage: a stream is to end with the token counts.
        max_tokens: its own limit on output tokens, None when it states none.
        least_tokens: it is to write at least so many, 0 without such a wish.
        to_the_limit: the end mark is ignored (`ignore_eos`): it writes until a limit ends it.
        forced: the only text that it may write, None for any.
        reuses_prefix: its prompt may be taken from, and left in, the prefix cache.
    """

    request: ChatRequest
    fields: Mapping[str, Any]
    chat: bool
    include_usage: bool
    max_tokens: int | None
    least_tokens: int
    to_the_limit: bool
    forced: str | None
    reuses_prefix: bool

    @property
    def stream(self) -> bool:
        return self.request.stream

    @property
    def asks_for_grammar(self) -> bool:
        """Whether it brings a grammar of its own."""
        return bool(self.fields.get("grammar"))


def read_ask(fields: Mapping[str, Any], *, chat: bool) -> Ask:
    """What a body asks for.

    Raises:
        BadBody: what is needed is missing or of the wrong kind.
    """
    messages = _messages(fields) if chat else ()
    prompt = None if chat else _prompt(fields)
    max_tokens = _count(fields, "max_completion_tokens") or _count(fields, "max_tokens") or _count(fields, "n_predict")
    options = fields.get("stream_options")
    request = ChatRequest(
        messages=messages,
        prompt=prompt,
        model=_kind(fields, "model", str),
        max_tokens=max_tokens,
        temperature=_number(fields, "temperature"),
        top_p=_number(fields, "top_p"),
        seed=_count(fields, "seed"),
        stop=_stops(fields),
        n=_count(fields, "n") or 1,
        tools=_tools(fields),
        tool_choice=_kind(fields, "tool_choice", (str, Mapping)),
        response_format=_kind(fields, "response_format", Mapping),
        logprobs=bool(fields.get("logprobs")),
        stream=fields.get("stream") is True,
        extra={name: value for name, value in fields.items() if name not in _KNOWN},
    )
    return Ask(
        request=request,
        fields=fields,
        chat=chat,
        include_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
        max_tokens=max_tokens,
        least_tokens=_count(fields, "min_tokens") or 0,
        to_the_limit=fields.get("ignore_eos") is True,
        forced=_forced(fields),
        reuses_prefix=fields.get("cache_prompt") is not False,
    )


def _messages(fields: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    messages = fields.get("messages")
    if not isinstance(messages, list | tuple) or not messages:
        raise BadBody("'messages' is required", "messages")
    if not all(isinstance(message, Mapping) and isinstance(message.get("role"), str) for message in messages):
        raise BadBody("every message is an object with a role", "messages")
    return messages


def _prompt(fields: Mapping[str, Any]) -> str:
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise BadBody("'prompt' is required, as one text", "prompt")
    return prompt


def _count(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None or (value == -1 and name == "n_predict"):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or (value == 0 and name != "seed"):
        raise BadBody(f"{name} must be a whole number above 0, got {value!r}.", name)
    return value


def _number(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise BadBody(f"{name} must be non-negative, got {value!r}.", name)
    return float(value)


def _kind(fields: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    value = fields.get(name)
    if value is not None and not isinstance(value, kind):
        raise BadBody(f"{name} is of the wrong type: {str(value)[:80]!r}.", name)
    return value


def _stops(fields: Mapping[str, Any]) -> tuple[str, ...]:
    stop = _kind(fields, "stop", (str, list)) or ()
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(isinstance(one, str) for one in stops):
        raise BadBody("stop must be a text or a list of texts.", "stop")
    return stops


def _tools(fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    tools = tuple(_kind(fields, "tools", list) or ())
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if not (isinstance(function, Mapping) and isinstance(function.get("name"), str)):
            raise BadBody("tools must be objects, each with a function that has a name.", "tools")
    return tools


def _forced(fields: Mapping[str, Any]) -> str | None:
    """The one text that a grammar or a choice of one leaves."""
    grammar = fields.get("grammar")
    if isinstance(grammar, str):
        found = _ONE_STRING.fullmatch(grammar.strip())
        return _unquoted(found[1]) if found else None
    outputs = fields.get("structured_outputs")
    choice: Any = outputs.get("choice") if isinstance(outputs, Mapping) else fields.get("guided_choice")
    one = isinstance(choice, list | tuple) and len(choice) == 1 and isinstance(choice[0], str)
    return str(choice[0]) if one else None


def _unquoted(text: str) -> str:
    """A GBNF string without its escapes: JSON's, and `\\xHH`."""
    as_json = _HEX.sub(r"\\u00\1", text)
    try:
        decoded: Any = msgspec.json.decode(f'"{as_json}"')
    except msgspec.DecodeError:
        return text
    return str(decoded)
