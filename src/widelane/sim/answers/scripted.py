"""Answers that are written down beforehand, found by what the request says: never by who came first.

    Scripted([Rule(when="capital of France", lines=[Line(text="Paris.")])])

The first rule whose `when` stands in the request applies. Its lines are taken by turn (the model's first words in a
conversation get the first line, its second words the second) or by chance.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from widelane.errors import UsageError
from widelane.records import ChatRequest
from widelane.sim.answers.answer import Answer, Answerer, estimated_tokens
from widelane.sim.answers.lengths import Lengths
from widelane.sim.answers.plain import PlainAnswers, json_text, tool_call
from widelane.sim.answers.request_text import asked_text, may_think, turns_before


class Pick(StrEnum):
    """Which line of a rule is said."""

    TURN = "turn"
    """The line of this turn of the conversation; the last one repeats."""
    CHANCE = "chance"
    """One of them, by weight: what many samples of one request look like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One scripted answer.

    Attributes:
        calls: tool calls as (name, arguments).
        tokens: of text and calls; None: estimated from their length.
        reasoning_tokens: of the reasoning; None: estimated likewise. Left out when the request forbids thinking.
        weight: how likely it is beside the others of its rule, where one is picked by chance.
    """

    text: str = ""
    reasoning: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    tokens: Lengths | None = None
    reasoning_tokens: Lengths | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When to say which lines.

    Attributes:
        when: regular expression searched in what system and user said (case matters); None: always.
        lines: at least one.
    """

    when: str | None = None
    lines: Sequence[Line]
    pick: Pick = Pick.TURN
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.lines:
            raise UsageError(f"The scripted rule for {self.when or 'everything'!r} has nothing to say.")
        if min(line.weight for line in self.lines) < 0 or not sum(line.weight for line in self.lines):
            raise UsageError(f"The weights of the scripted rule for {self.when or 'everything'!r} add up to nothing.")
        try:
            pattern = re.compile(self.when or "")
        except re.error as error:
            raise UsageError(f"The scripted rule's `when` is no regular expression: {self.when!r}: {error}.") from error
        object.__setattr__(self, "_pattern", pattern)

    def applies(self, text: str) -> bool:
        """Whether the rule is for a request that says this."""
        return self._pattern.search(text) is not None

    def line(self, turn: int, rng: random.Random) -> Line:
        """The line for the model's words number `turn`, from 0."""
        if self.pick is Pick.TURN:
            return self.lines[min(turn, len(self.lines) - 1)]
        return rng.choices(self.lines, [line.weight for line in self.lines])[0]


@dataclass(frozen=True, slots=True)
class Scripted:
    """Says what the first rule that applies tells it to.

    Attributes:
        otherwise: who answers when no rule applies.
    """

    rules: Sequence[Rule]
    otherwise: Answerer = field(default_factory=PlainAnswers)

    def __call__(self, request: ChatRequest, rng: random.Random) -> Answer:
        text = asked_text(request)
        rule = next((rule for rule in self.rules if rule.applies(text)), None)
        if rule is None:
            return self.otherwise(request, rng)
        line = rule.line(turns_before(request), rng)
        return _said(line, rng, thinking=may_think(request))


def _said(line: Line, rng: random.Random, *, thinking: bool) -> Answer:
    calls = tuple(tool_call(name, arguments, rng) for name, arguments in line.calls)
    marks = "".join(call.name + json_text(call.arguments) for call in calls)
    tokens = line.tokens.draw(rng) if line.tokens else max(1, estimated_tokens(line.text) + estimated_tokens(marks))
    reasoning = line.reasoning if thinking else ""
    thought = estimated_tokens(reasoning)
    if line.reasoning_tokens is not None and reasoning:
        thought = line.reasoning_tokens.draw(rng)
    return Answer(
        text=line.text,
        reasoning=reasoning,
        tool_calls=calls,
        output_tokens=tokens + thought,
        reasoning_tokens=thought,
    )
