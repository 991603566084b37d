"""Requests to one simulated model: what each reads and writes, and its way through the engine."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from widelane.records import ToolCall
from widelane.sim.answers.answer import Answer, Answerer
from widelane.sim.answers.constrained import SchemaEnforced
from widelane.sim.answers.plain import demanded_call, thinking_first
from widelane.sim.answers.randomness import AnswerRandomness
from widelane.sim.answers.writing import cut_at, drawn_out, filler
from widelane.sim.ask import Ask
from widelane.sim.call import Segment, SimCall
from widelane.sim.chat_template import segments
from widelane.sim.driver import EngineDriver
from widelane.sim.settings import ServerSettings
from widelane.sim.telling import told, written_text
from widelane.sim.tokens import count_tokens

_THOUGHT_TOKENS = 12
_RUN_ON = "<|im_end|>\n<|im_start|>user\nAnd then?<|im_end|>\n<|im_start|>assistant\n"
_RUN_ON_TOKENS = 40
_REMEMBERED = 4096
"""Answers whose lengths are remembered, so that a prompt which repeats one is counted as it was written."""
_PAST_LIMIT_TOKENS = 64

Change = Callable[[Answer, Ask, random.Random], Answer]
"""What a fault makes of an answer as it is told."""


class TooLong(Exception):
    """The request does not fit the context.

    Attributes:
        wanted_tokens: what it needs: its prompt, with its own limit where that is what does not fit.
    """

    def __init__(self, prompt_tokens: int, wanted_tokens: int, context_tokens: int) -> None:
        super().__init__(f"{wanted_tokens} tokens in a context of {context_tokens}")
        self.prompt_tokens = prompt_tokens
        self.wanted_tokens = wanted_tokens
        self.context_tokens = context_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One choice before it is written.

    Attributes:
        answer: as the server will tell it.
        tokens: what it writes of it.
        finish: why it ends there.
    """

    answer: Answer
    tokens: int
    finish: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One request, ready for the engine."""

    ask: Ask
    prompt_tokens: int
    prefix: tuple[Segment, ...]
    choices: tuple[Planned, ...]


class ModelService:
    """One model behind one engine.

    Args:
        seed: of the answers.
    """

    def __init__(self, settings: ServerSettings, driver: EngineDriver, answerer: Answerer, *, seed: int) -> None:
        self.settings = settings
        self.driver = driver
        self._answerer = SchemaEnforced(answerer) if settings.habits.enforces_schemas else answerer
        self._randomness = AnswerRandomness(seed)
        self._calls = 0
        self._lengths: OrderedDict[str, int] = OrderedDict()

    def prompt_text(self, ask: Ask) -> str:
        """The prompt as the chat template makes it."""
        return "".join(text for text, _ in self._parts(ask))

    def prepare(self, ask: Ask, change: Change | None = None) -> Prepared:
        """Read the request and decide its answers.

        Raises:
            TooLong: it is refused for its length.
        """
        settings = self.settings
        prefix = self._prefix(ask)
        tokens = max(1, sum(count for _, count in prefix))
        context = settings.context_tokens
        if tokens >= context:
            if not settings.habits.truncates:
                raise TooLong(tokens, tokens, context)
            prefix, tokens = (), context // 2
        if settings.engine == "vllm" and ask.max_tokens is not None and tokens + ask.max_tokens > context:
            raise TooLong(tokens, tokens + ask.max_tokens, context)
        count = ask.request.n if settings.habits.honours_n else 1
        choices = tuple(self._plan(ask, number, context - tokens, change) for number in range(count))
        usable = settings.prefix_cache and ask.reuses_prefix
        return Prepared(ask=ask, prompt_tokens=tokens, prefix=prefix if usable else (), choices=choices)

    def calls_for(self, prepared: Prepared) -> list[SimCall]:
        """The engine's calls for a request, one a choice."""
        self._calls += 1
        calls = []
        for number, planned in enumerate(prepared.choices):
            text = _history_text(planned.answer)
            self._remember(text, planned.tokens)
            call = SimCall(
                id=f"{self._calls}.{number}",
                prompt_tokens=prepared.prompt_tokens,
                output_tokens=planned.tokens,
                prefix=prepared.prefix,
                output_key=("written", text) if prepared.prefix else None,
                priority=_priority(prepared.ask),
            )
            calls.append(call)
        return calls

    # --- the prompt

    def _parts(self, ask: Ask) -> Sequence[tuple[str, bool]]:
        if ask.request.prompt is not None:
            return [(ask.request.prompt, False)]
        return self.settings.template.parts(ask.request.messages, ask.request.tools, ask.fields)

    def _prefix(self, ask: Ask) -> tuple[Segment, ...]:
        """The whole prompt in pieces; an answer of this server stands as one piece, as long as it was written."""
        found: list[Segment] = []
        for text, written in self._parts(ask):
            length = self._lengths.get(text) if written else None
            if length is not None:
                found.append((("written", text), length))
            else:
                found.extend(segments(text))
        return tuple(found)

    def _remember(self, text: str, tokens: int) -> None:
        self._lengths[text] = tokens
        self._lengths.move_to_end(text)
        if len(self._lengths) > _REMEMBERED:
            self._lengths.popitem(last=False)

    # --- the answer

    def _plan(self, ask: Ask, number: int, room: int, change: Change | None) -> Planned:
        settings, habits = self.settings, self.settings.habits
        request = ask.request
        if not habits.samples and request.temperature is None:
            request = replace(request, temperature=0.0)
        rng = self._randomness.of(request, number)
        opened = ask.chat and settings.template.opens_thought(ask.fields)
        answer = self._written(ask, rng)
        if habits.always_thinks and ask.chat:
            answer = thinking_first(answer, _THOUGHT_TOKENS)
        answer = told(answer, settings.template, thoughts=habits.thoughts, calls=habits.calls, opened=opened)
        if change is not None:
            answer = change(answer, ask, rng)
        if not habits.stops and ask.chat and not answer.tool_calls:
            text = answer.text + _RUN_ON + filler(_RUN_ON_TOKENS)
            answer = replace(
                answer, text=text, output_tokens=answer.output_tokens + count_tokens(_RUN_ON) + _RUN_ON_TOKENS
            )
        answer = cut_at(answer, request.stop)
        return self._limited(ask, answer, room)

    def _written(self, ask: Ask, rng: random.Random) -> Answer:
        if ask.forced is None:
            return self._answerer(ask.request, rng)
        return written_text(ask.forced, ask.request.tools, f"{rng.getrandbits(48):012x}")

    def _limited(self, ask: Ask, answer: Answer, room: int) -> Planned:
        habits = self.settings.habits
        limit = min(room, ask.max_tokens or habits.default_max_tokens or room)
        ends_by_itself = not ask.to_the_limit and answer.output_tokens <= limit
        if not habits.keeps_max_tokens and ask.max_tokens is not None and not ends_by_itself:
            limit = min(room, 4 * ask.max_tokens + _PAST_LIMIT_TOKENS)
            answer = drawn_out(answer, limit)
        least = limit if ask.to_the_limit else min(limit, ask.least_tokens)
        answer = drawn_out(answer, least)
        cut = answer.output_tokens > limit or (ask.to_the_limit and answer.output_tokens >= limit)
        tokens = min(limit, answer.output_tokens)
        return Planned(answer=answer, tokens=tokens, finish="length" if cut else answer.finish)


def call_for_tools(ask: Ask, rng: random.Random) -> ToolCall | None:
    """A call of a tool that the request offers, whether it asks for one or not; None when it offers none."""
    return demanded_call(replace(ask.request, tool_choice="required"), rng)


def _history_text(answer: Answer) -> str:
    """The answer as a client puts it back into the history, as far as the template shows it."""
    return answer.text


def _priority(ask: Ask) -> int:
    stated: Any = ask.fields.get("priority")
    return stated if isinstance(stated, int) and not isinstance(stated, bool) else 0
