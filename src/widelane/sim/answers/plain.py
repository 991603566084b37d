"""The answerer where nobody says what to answer: prose of a drawn length, or the tool call that is asked for."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from widelane.records import ChatRequest, ToolCall
from widelane.sim.answers.answer import Answer, estimated_tokens
from widelane.sim.answers.lengths import Fixed, Lengths
from widelane.sim.answers.request_text import last_words, may_think
from widelane.sim.answers.schema import conforming
from widelane.sim.answers.writing import filler

_USUAL_TOKENS: Final = 256
_ASKS_FOR_CALL: Final = re.compile(r"\b(?:call|use) (?:the|a|this) (?:tool|function)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAnswers:
    """Filler prose, or a tool call where one is demanded or asked for in words.

    Attributes:
        lengths: tokens of the text; a call is as long as it comes out.
        thinking: tokens of reasoning before it, None for a model that does not think.
    """

    lengths: Lengths = field(default_factory=lambda: Fixed(_USUAL_TOKENS))
    thinking: Lengths | None = None

    def __call__(self, request: ChatRequest, rng: random.Random) -> Answer:
        thought = self.thinking.draw(rng) if self.thinking is not None and may_think(request) else 0
        call = demanded_call(request, rng)
        if call is not None:
            return thinking_first(called(call), thought)
        tokens = self.lengths.draw(rng)
        return thinking_first(Answer(text=filler(tokens, rng.randrange(1 << 16)), output_tokens=tokens), thought)


def demanded_call(request: ChatRequest, rng: random.Random) -> ToolCall | None:
    """The call that the request demands (`tool_choice`) or asks for in words; None when it does neither."""
    choice = request.tool_choice
    if not request.tools or choice == "none":
        return None
    named = function_of(choice).get("name") if isinstance(choice, Mapping) else None
    if named is None and choice != "required" and not _ASKS_FOR_CALL.search(last_words(request)):
        return None
    functions = [function_of(tool) for tool in request.tools]
    function = next((one for one in functions if one.get("name") == named), functions[0])
    arguments = conforming({"type": "object", **function.get("parameters", {})}, None, rng)
    return tool_call(str(function.get("name")), arguments, rng)


def function_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a tool is called and takes, whether it is wrapped (`{"type": "function", "function": …}`) or bare."""
    function = tool.get("function")
    return function if isinstance(function, Mapping) else tool


def tool_call(name: str, arguments: Mapping[str, Any], rng: random.Random) -> ToolCall:
    """A call with an id from the request's own generator."""
    return ToolCall(id=f"call_{rng.getrandbits(64):016x}", name=name, arguments=arguments)


def called(call: ToolCall, *, text: str = "", tokens: int | None = None, mistake: str | None = None) -> Answer:
    """An answer that is one call, with a few words before it."""
    least = estimated_tokens(text) + estimated_tokens(call.name + json_text(call.arguments)) + 8  # the call's marks
    return Answer(text=text, tool_calls=(call,), output_tokens=tokens or least, mistake=mistake)


def written(text: str, tokens: int | None = None) -> Answer:
    """An answer that is this text, in as many tokens as it is likely to have unless that is stated."""
    return Answer(text=text, output_tokens=tokens or max(1, estimated_tokens(text)))


def thinking_first(answer: Answer, tokens: int) -> Answer:
    """The answer after so many tokens of thinking."""
    if tokens <= 0:
        return answer
    return replace(
        answer,
        reasoning=filler(tokens),
        output_tokens=answer.output_tokens + tokens,
        reasoning_tokens=tokens,
    )


def json_text(value: Any) -> str:
    """The value as one line of JSON."""
    return msgspec.json.encode(value).decode()
