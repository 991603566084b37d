"""Faults of what is said: thoughts and tool calls in the wrong place, limits and wishes that are ignored."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from widelane.sim.answers.answer import Answer
from widelane.sim.answers.plain import json_text
from widelane.sim.ask import Ask
from widelane.sim.faults.fault import Fault
from widelane.sim.service import call_for_tools
from widelane.sim.tokens import count_tokens

_THOUGHT = "The question is short, so the answer can be short."
_PHRASE = "and so it goes on and on, "
_SMALL_LIMIT = 32
_FOREVER_TOKENS = 200_000
"""Longer than anybody waits for; the context ends it."""


def _thinking(answer: Answer) -> Answer:
    """The answer with a thought before it."""
    if answer.reasoning:
        return answer
    tokens = count_tokens(_THOUGHT)
    return replace(answer, reasoning=_THOUGHT, reasoning_tokens=tokens, output_tokens=answer.output_tokens + tokens)


def _thought(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
    return _thinking(answer)


def _only_thought(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
    """All that `max_tokens` allows goes into the thought."""
    tokens = max(count_tokens(_THOUGHT), 2 * (ask.max_tokens or 0))
    reasoning = (_THOUGHT + " ") * (tokens // count_tokens(_THOUGHT) + 1)
    return replace(answer, text="", reasoning=reasoning, tool_calls=(), output_tokens=tokens, reasoning_tokens=tokens)


def _in_text(opening: str, closing: str) -> Any:
    def change(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
        thinking = _thinking(answer)
        text = f"{opening}{thinking.reasoning}{closing}{thinking.text}"
        return replace(thinking, text=text, reasoning="", reasoning_tokens=0)

    return change


def _unclosed(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
    """An opening tag, and nothing after it before the limit."""
    thought = _only_thought(answer, ask, rng)
    return replace(thought, text=f"<think>\n{thought.reasoning}", reasoning="", reasoning_tokens=0)


def _call_in_text(form: str) -> Any:
    def change(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
        call = call_for_tools(ask, rng)
        if call is None:
            return answer
        if form == "xml":
            values = "".join(
                f"<parameter={name}>\n{value if isinstance(value, str) else json_text(value)}\n</parameter>\n"
                for name, value in call.arguments.items()
            )
            text = f"<tool_call>\n<function={call.name}>\n{values}</function>\n</tool_call>"
        else:
            text = f"<tool_call>\n{json_text({'name': call.name, 'arguments': call.arguments})}\n</tool_call>"
        return Answer(text=text, output_tokens=count_tokens(text))

    return change


def _with_call(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
    """The answer is a call wherever tools are offered, so that there is something to spoil."""
    if answer.tool_calls:
        return answer
    call = call_for_tools(ask, rng)
    if call is None:
        return answer
    tokens = count_tokens(call.name + json_text(call.arguments)) + 4
    return Answer(tool_calls=(call,), output_tokens=tokens)


def _with_calls(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
    one = _with_call(answer, ask, rng)
    if not one.tool_calls:
        return one
    first = one.tool_calls[0]
    second = replace(first, id=f"{first.id}b")
    return replace(one, tool_calls=(first, second), output_tokens=2 * one.output_tokens)


def _empty(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
    return Answer(text="", output_tokens=1)


def _with_wide_letters(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
    """Signs of four bytes at the beginning, so that there is something to split."""
    return replace(answer, text="🌍🌍 " + answer.text, output_tokens=answer.output_tokens + 2)


def _leaking(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
    return replace(answer, text=answer.text + "<|im_end|>", output_tokens=answer.output_tokens + 1)


def _endless(answer: Answer, ask: Ask, rng: random.Random) -> Answer:
    repeats = _FOREVER_TOKENS // count_tokens(_PHRASE)
    return Answer(text=_PHRASE * repeats, output_tokens=_FOREVER_TOKENS)


def _without(*names: str) -> Any:
    def asked(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: value for name, value in fields.items() if name not in names}

    return asked


def _unlimited(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """`max_tokens` is not read, and the model has much to say."""
    return {**_without("max_tokens", "max_completion_tokens", "n_predict")(fields), "min_tokens": 2000}


def _with_limit(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A limit that a thought can reach, where none is stated."""
    limited = {"max_tokens", "max_completion_tokens", "n_predict"} & fields.keys()
    return fields if limited else {**fields, "max_tokens": _SMALL_LIMIT}


def _sampled(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**_without("seed")(fields), "temperature": 1.0}


SAYINGS: tuple[Fault, ...] = (
    Fault(name="stream_ok_no_deltas", what="status 200, a well-formed stream, and nothing in it", change=_empty),
    Fault(name="reasoning_content_field", what="reasoning in `reasoning_content`", change=_thought),
    Fault(name="reasoning_field", what="reasoning in `reasoning`", change=_thought),
    Fault(
        name="reasoning_only_length",
        what="the whole limit goes into thought",
        asked=_with_limit,
        change=_only_thought,
    ),
    Fault(
        name="think_tags_in_content",
        what="a complete think block at the head of the content",
        change=_in_text("<think>\n", "\n</think>\n\n"),
    ),
    Fault(name="think_close_only", what="only the closing tag of a thought", change=_in_text("", "\n</think>\n\n")),
    Fault(
        name="think_unclosed",
        what="an opening tag, then the length limit",
        asked=_with_limit,
        change=_unclosed,
    ),
    Fault(name="tool_xml_in_content", what="a call in Qwen's XML left in the content", change=_call_in_text("xml")),
    Fault(name="tool_json_in_content", what="a call in Hermes' JSON left in the content", change=_call_in_text("json")),
    Fault(name="n_ignored", what="`n` is ignored: one choice comes back", asked=_without("n")),
    Fault(name="seed_not_reproducible", what="the seed is ignored: answers differ under load", asked=_sampled),
    Fault(name="max_tokens_ignored", what="the stream goes on past `max_tokens`", asked=_unlimited),
    Fault(
        name="logprobs_missing", what="log probabilities were asked for, null comes back", asked=_without("logprobs")
    ),
    Fault(name="endless_repetition", what="one phrase for ever", asked=_unlimited, change=_endless),
    Fault(name="special_tokens_leak", what="a stop token is part of the content", change=_leaking),
)
WITH_CALL, WITH_CALLS, WIDE_LETTERS = _with_call, _with_calls, _with_wide_letters
"""What the faults of `streams` need to have something to spoil."""
