"""What the job under test asks, and the one right answer to each question: a function of the question alone."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from widelane.records import ChatRequest, Reply, ToolCall
from widelane.sim.answers.answer import Answer

LONGEST_ANSWER_TOKENS = 24
MAX_TOKENS = 64
"""Room for the answer and for what a fault or a habit adds to it: a thought, two signs, an end mark."""
_WORDS = ("amber", "brook", "cedar", "delta", "ember", "fjord", "grove", "heath", "islet", "jetty", "knoll", "ledge",
          "marsh", "north", "oasis", "plain", "quarry")  # fmt: skip
_TOOL = "look_up"
_WIDE, _LEAK = "🌍🌍 ", "<|im_end|>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question.

    Attributes:
        after: key of the item that must be finished before, None when it may go at once.
        tool: the answer is a call of a tool.
        choices: how many choices are asked for.
    """

    key: str
    after: str | None
    priority: int
    chat: bool
    stream: bool
    tool: bool
    choices: int
    padding_words: int

    def request(self) -> ChatRequest:
        """The call. Its prompt estimate is generous, so that a budget that is kept by it is kept."""
        text = f"Tell me about [{self.key}]. " + " ".join(_WORDS[n % len(_WORDS)] for n in range(self.padding_words))
        asked = ChatRequest(
            max_tokens=MAX_TOKENS, temperature=0.0, seed=1, n=self.choices, stream=self.stream,
            prompt_tokens_estimate=len(text) // 2 + (200 if self.tool else 40),
        )  # fmt: skip
        if not self.chat:
            return dataclasses.replace(asked, prompt=text)
        tools = [_offered(self.key)] if self.tool else []
        return dataclasses.replace(asked, messages=[{"role": "user", "content": text}], tools=tools)


def key_of(request: ChatRequest) -> str:
    """The key that stands in the question."""
    text = request.prompt if request.prompt is not None else str(request.messages[-1]["content"])
    return text.partition("[")[2].partition("]")[0]


def right_text(key: str) -> str:
    """What the model says about this."""
    rng = random.Random(f"answer/{key}")
    return f"{key} is " + " ".join(rng.sample(_WORDS, rng.randint(2, 12))) + "."


def answer(request: ChatRequest, rng: random.Random) -> Answer:
    """The simulated model. It makes no use of chance: the same question has one answer in any run."""
    key = key_of(request)
    tokens = random.Random(f"tokens/{key}").randint(2, LONGEST_ANSWER_TOKENS)
    if request.tools:
        return Answer(tool_calls=(ToolCall(f"call_{key}", _TOOL, {"item": key}),), output_tokens=tokens)
    return Answer(text=right_text(key), output_tokens=tokens)


@dataclass(frozen=True, slots=True)
class Said:
    """What counts of a reply when two runs are compared: ids and times differ, what was said must not."""

    text: str
    calls: tuple[tuple[str, Any], ...]
    choices: tuple[str, ...]


def said(reply: Reply | Mapping[str, Any]) -> Said:
    """The same of a reply and of its stored form."""
    if isinstance(reply, Reply):
        calls = tuple((call.name, dict(call.arguments)) for call in reply.tool_calls)
        return Said(reply.text, calls, tuple(reply.choices))
    calls = tuple((call["name"], call["arguments"]) for call in reply["tool_calls"])
    return Said(reply["text"], calls, tuple(reply["choices"]))


def right(item: Item) -> Said:
    """The right answer."""
    if item.tool:
        return Said("", ((_TOOL, {"item": item.key}),), ("",))
    text = right_text(item.key)
    return Said(text, (), (text,) * item.choices)


def is_right(item: Item, found: Said, fault: str | None, *, cut_short: bool) -> bool:
    """Whether a finished answer is the right one, but for what the fault of its last attempt makes of any answer.

    Args:
        cut_short: the call's own budget left no room for the whole.
    """
    expected = right(item)
    if found == expected or (cut_short and expected.text.startswith(found.text) and not found.calls):
        return True
    allowed = _SPOILT.get(fault or "")
    return allowed is not None and allowed(expected, found)


def _without_arguments(expected: Said, found: Said) -> bool:
    return all(
        name == _TOOL and arguments in ({}, {"item": expected.calls[0][1]["item"]}) for name, arguments in found.calls
    )


_SPOILT: Mapping[str, Any] = {
    "utf8_split_across_reads": lambda expected, found: found.text == _WIDE + expected.text,
    "special_tokens_leak": lambda expected, found: found.text == expected.text + _LEAK,
    "max_tokens_ignored": lambda expected, found: found.text.startswith(expected.text),
    "endless_repetition": lambda expected, found: found.text.startswith("and so it goes on"),
    "n_ignored": lambda expected, found: found == dataclasses.replace(expected, choices=(expected.text,)),
    "tool_parallel_same_index": lambda expected, found: found.calls == expected.calls * 2,
    "tool_args_unterminated": _without_arguments,
    "tool_args_empty": _without_arguments,
}
"""Faults that change the content of an answer which the client has no way to tell from a whole one."""


def _offered(key: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"item": {"const": key}}, "required": ["item"]}
    return {"type": "function", "function": {"name": _TOOL, "description": "Look it up.", "parameters": schema}}
