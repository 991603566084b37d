"""From what the model wrote to what its server sends: thoughts and tool calls told apart, or left where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from widelane.records import ToolCall
from widelane.sim.answers.answer import Answer
from widelane.sim.answers.plain import json_text
from widelane.sim.answers.writing import Writing
from widelane.sim.chat_template import ChatTemplate
from widelane.sim.settings import Calls, Thoughts
from widelane.sim.tokens import count_tokens
from widelane.wire.tool_recovery import recover_tool_calls

OPENING, CLOSING = "<think>", "</think>"


def told(answer: Answer, template: ChatTemplate, *, thoughts: Thoughts, calls: Calls, opened: bool) -> Answer:
    """The answer as the server's parsers leave it.

    Args:
        opened: the prompt ended inside a thought, so that the model wrote only its closing mark.
    """
    if answer.tool_calls and calls is Calls.IN_TEXT:
        raw = "".join(raw_call(call, template) for call in answer.tool_calls)
        answer = replace(answer, text=answer.text + raw, tool_calls=())
    if answer.reasoning and thoughts is Thoughts.IN_TEXT:
        mark = "" if opened else f"{OPENING}\n"
        text = f"{mark}{answer.reasoning}\n{CLOSING}\n\n{answer.text}"
        return replace(answer, text=text, reasoning="", reasoning_tokens=0)
    if thoughts is Thoughts.SWALLOW and answer.text and not answer.tool_calls:
        reasoning = answer.reasoning + answer.text
        return replace(answer, text="", reasoning=reasoning, reasoning_tokens=answer.output_tokens)
    return answer


def written_text(text: str, tools: Sequence[Mapping[str, Any]], seed: str) -> Answer:
    """The answer behind a text as a model writes it: thought first, calls in their own form."""
    tokens = max(1, count_tokens(text))
    thought, mark, rest = text.partition(CLOSING)
    reasoning = thought.strip().removeprefix(OPENING).strip() if mark else ""
    found = recover_tool_calls(rest.lstrip() if mark else text, tools)
    calls = tuple(
        ToolCall(id=f"call_{seed}_{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(found.calls)
    )
    said = found.text if calls else (rest.lstrip() if mark else text)
    thought_tokens = min(tokens, count_tokens(reasoning))
    if not said and not calls:
        thought_tokens = tokens if reasoning else 0
    return Answer(
        text=said, reasoning=reasoning, tool_calls=calls, output_tokens=tokens, reasoning_tokens=thought_tokens
    )


def raw_call(call: ToolCall, template: ChatTemplate) -> str:
    """A call as the model itself writes it."""
    if not template.xml_calls:
        return f"<tool_call>\n{json_text({'name': call.name, 'arguments': call.arguments})}\n</tool_call>"
    parameters = "".join(
        f"<parameter={name}>\n{value if isinstance(value, str) else json_text(value)}\n</parameter>\n"
        for name, value in call.arguments.items()
    )
    return f"<tool_call>\n<function={call.name}>\n{parameters}</function>\n</tool_call>"


@dataclass(frozen=True, slots=True)
class CallPiece:
    """Part of a tool call.

    Attributes:
        index: which of the answer's calls.
        call: the call that begins here, None where one goes on.
        arguments: the next characters of its arguments.
    """

    index: int
    call: ToolCall | None
    arguments: str


@dataclass(frozen=True, slots=True)
class Piece:
    """What one arrival of tokens adds."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[CallPiece, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.reasoning or self.calls)


class Pieces:
    """An answer handed out token by token."""

    __slots__ = ("_answer", "_arguments", "_begun", "_called", "_reasoned", "_said", "_writing", "tokens")

    def __init__(self, answer: Answer) -> None:
        self.tokens = 0
        self._answer = answer
        self._arguments = [json_text(call.arguments) for call in answer.tool_calls]
        self._writing = Writing(answer, [len(text) for text in self._arguments])
        self._reasoned = self._said = self._called = self._begun = 0

    def take(self, count: int) -> Piece:
        """What the next `count` tokens say."""
        self.tokens += count
        now = self._writing.until(self.tokens)
        text, reasoning = now.text[self._said :], now.reasoning[self._reasoned :]
        self._said, self._reasoned = len(now.text), len(now.reasoning)
        calls = self._call_pieces(now.tool_chars) if self._arguments else ()
        return Piece(text, reasoning, calls)

    def _call_pieces(self, chars: int) -> tuple[CallPiece, ...]:
        """The calls' next characters: one call after the other, each beginning with its name."""
        pieces: list[CallPiece] = []
        start = 0
        for index, text in enumerate(self._arguments):
            low, high = max(self._called - start, 0), min(chars - start, len(text))
            if high > low:
                begins = index >= self._begun
                self._begun = max(self._begun, index + 1)
                call = self._answer.tool_calls[index] if begins else None
                pieces.append(CallPiece(index, call, text[low:high]))
            start += len(text)
        self._called = max(self._called, chars)
        return tuple(pieces)
