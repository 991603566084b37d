"""A cost that is easy to follow by hand, and calls run to their end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from widelane.sim.cost_model import PromptChunk, StepLine
from widelane.sim.engine import SimEngine
from widelane.sim.events import CallEvent, Event, Started


@dataclass(frozen=True)
class HandCost:
    """A decode step takes 1 s, a prompt token 10 ms, unless told otherwise; nothing else counts.

    Attributes:
        step_s, sequence_s, context_token_s: of a decode step: itself, each sequence in it, each token of their context.
        prompt_token_s: each prompt token, in any step.
        one_step: the line holds for one step only, so that the engine goes step by step.
    """

    step_s: float = 1.0
    sequence_s: float = 0.0
    context_token_s: float = 0.0
    prompt_token_s: float = 0.01
    one_step: bool = False

    def decode_line(self, batch: int, context_tokens: float, draft_depth: int) -> StepLine:
        until = context_tokens + 1e-9 if self.one_step else math.inf
        return StepLine(self.step_s + self.sequence_s * batch, self.context_token_s, until)

    def mixed_s(self, chunks: Sequence[PromptChunk], batch: int, context_tokens: float, draft_depth: int) -> float:
        prompts_s = self.prompt_token_s * sum(chunk.tokens for chunk in chunks)
        return prompts_s + (
            self.decode_line(batch, context_tokens, draft_depth).seconds(context_tokens) if batch else 0
        )


def run_out(engine: SimEngine) -> list[Event]:
    """All events until nothing is left to do, as a server would ask for them."""
    events: list[Event] = []
    while (time_s := engine.next_s()) is not None:
        events += engine.advance(time_s)
    return events


def story(events: Sequence[Event]) -> list[tuple[float, str, str]]:
    """(time, what, which call) of everything that happened to calls."""
    return [(event.time_s, type(event).__name__, event.call_id) for event in events if isinstance(event, CallEvent)]


def times(events: Sequence[Event], kind: type[CallEvent]) -> dict[str, float]:
    """When the last event of this kind happened, by call."""
    return {event.call_id: event.time_s for event in events if isinstance(event, kind)}


def starts(events: Sequence[Event]) -> list[str]:
    """The calls in the order in which they started."""
    return [event.call_id for event in events if isinstance(event, Started)]
