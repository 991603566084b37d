"""A script of answers as a JSON document.

    {"answers": [{"when": "capital of France", "say": ["Paris."]},
                 {"when": "dice", "pick": "chance", "say": ["one", {"text": "six", "weight": 2}]},
                 {"when": "weather", "say": [{"calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]},
                                             {"text": "It rains.", "tokens": "20-60"}]}],
     "otherwise": {"tokens": "600-1500", "thinking_tokens": "200"}}

`tokens` and the like are numbers or what `lengths.parse_lengths` reads.
"""

from __future__ import annotations

from typing import Any

import msgspec

from widelane.errors import UsageError
from widelane.sim.answers.lengths import Lengths, parse_lengths
from widelane.sim.answers.plain import PlainAnswers
from widelane.sim.answers.scripted import Line, Pick, Rule, Scripted

_Tokens = str | int


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] = {}


class _Say(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""
    reasoning: str = ""
    calls: list[_Call] = []
    tokens: _Tokens | None = None
    reasoning_tokens: _Tokens | None = None
    weight: float = 1.0


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    say: list[str | _Say]
    when: str | None = None
    pick: Pick = Pick.TURN


class _Otherwise(msgspec.Struct, forbid_unknown_fields=True):
    tokens: _Tokens | None = None
    thinking_tokens: _Tokens | None = None


class _Script(msgspec.Struct, forbid_unknown_fields=True):
    answers: list[_Rule]
    otherwise: _Otherwise = msgspec.field(default_factory=_Otherwise)


def parse_script(text: str | bytes, where: str = "the script") -> Scripted:
    """The answerer that a script describes.

    Args:
        where: what to call the script in an error, its file name.

    Raises:
        UsageError: it is no such script; says where in it.
    """
    try:
        script = msgspec.json.decode(text, type=_Script)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{where} is no script of answers: {error}.") from error
    try:
        rules = [_rule(rule) for rule in script.answers]
        return Scripted(rules, _plain(script.otherwise))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _rule(rule: _Rule) -> Rule:
    return Rule(when=rule.when, lines=[_line(say) for say in rule.say], pick=rule.pick)


def _line(say: str | _Say) -> Line:
    if isinstance(say, str):
        return Line(text=say)
    return Line(
        text=say.text,
        reasoning=say.reasoning,
        calls=[(call.name, call.arguments) for call in say.calls],
        tokens=_lengths(say.tokens),
        reasoning_tokens=_lengths(say.reasoning_tokens),
        weight=say.weight,
    )


def _plain(otherwise: _Otherwise) -> PlainAnswers:
    thinking = _lengths(otherwise.thinking_tokens)
    lengths = _lengths(otherwise.tokens)
    return PlainAnswers(thinking=thinking) if lengths is None else PlainAnswers(lengths=lengths, thinking=thinking)


def _lengths(tokens: _Tokens | None) -> Lengths | None:
    return None if tokens is None else parse_lengths(str(tokens))
