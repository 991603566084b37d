"""What a simulated model writes, and the protocol of whoever decides it.

The engine decides *when* tokens come, an answerer decides *what* they say and how many they are. An answerer sees the
request and a random generator made for this request alone (`randomness.AnswerRandomness`), and nothing else: so the
same seed and request give the same answer whatever else is running.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from widelane.records import ChatRequest, ToolCall

_CHARS_A_TOKEN: Final = 4
"""English prose and code have 3 to 5 characters a token in the vocabularies of Llama and Qwen; counts that matter are
stated by a distribution, not estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One whole answer, as the model would write it if no limit cut it short.

    It is written in this order: reasoning, text, tool calls.

    Attributes:
        text: the answer; may be empty where there are tool calls.
        reasoning: thinking before it, told apart by the server; empty for a model that does not think.
        tool_calls: calls of tools that the request offered.
        output_tokens: tokens of it all, reasoning and calls included; at least 1. A server's own limit
            (`max_tokens`, the context) may cut it.
        reasoning_tokens: of which reasoning.
        right: whether it solves the problem, None where that has no meaning. Never sent: for reports and for the
            verifier that a simulation costs instead of running.
        mistake: name of the known mistake that was made on purpose, None for none. Never sent.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: Sequence[ToolCall] = ()
    output_tokens: int
    reasoning_tokens: int = 0
    right: bool | None = None
    mistake: str | None = None

    def __post_init__(self) -> None:
        if self.output_tokens < 1:
            raise ValueError(f"an answer has at least one token, not {self.output_tokens}")
        if not 0 <= self.reasoning_tokens <= self.output_tokens:
            raise ValueError(f"{self.reasoning_tokens} reasoning tokens of {self.output_tokens} in all")

    @property
    def finish(self) -> str:
        """The finish reason when no limit cuts it: `tool_calls` or `stop`."""
        return "tool_calls" if self.tool_calls else "stop"


class Answerer(Protocol):
    """Decides what a simulated model answers. A plain function will do."""

    def __call__(self, request: ChatRequest, rng: random.Random) -> Answer:
        """The answer to this request. All chance must come from `rng`, and nothing may be kept between calls."""
        ...


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has (characters ÷ 4, rounded up); 0 for none."""
    return -(-len(text) // _CHARS_A_TOKEN)
