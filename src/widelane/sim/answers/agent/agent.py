"""A simulated agent in the three roles of a fan-out job: planner, worker, integrator.

    agent = Agent(mistakes={Mistake.INVENTED_FILES: 1.0}, seed=7)

It does its work sensibly: a plan covers the files it was shown, a worker reads and then writes, an overview mentions
the names that really are there. Each known mistake can be switched on, for all conversations or for a share of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from widelane.errors import UsageError
from widelane.records import ChatRequest
from widelane.sim.answers.agent.mistakes import Habits, Mistake
from widelane.sim.answers.agent.planner import plan
from widelane.sim.answers.agent.tools import Tools
from widelane.sim.answers.agent.turn import AgentLengths, Turn
from widelane.sim.answers.agent.worker import Worker
from widelane.sim.answers.agent.writer import overview
from widelane.sim.answers.answer import Answer
from widelane.sim.answers.plain import thinking_first
from widelane.sim.answers.request_text import asked_text, may_think, wanted_schema
from widelane.sim.answers.schema import resolved


class Role(StrEnum):
    """What an answer is for."""

    PLANNER = "planner"
    WORKER = "worker"
    INTEGRATOR = "integrator"


_PLANS: Final = re.compile(r"\bsub-?tasks?\b|\bplan(?:ner|s|ning)?\b|\bsplit (?:up|it|this|the)\b", re.IGNORECASE)
_INTEGRATES: Final = re.compile(r"\bintegrat\w+|\boverview\b|\bmerge\b|\bcombine\b|\breduce\b", re.IGNORECASE)


def role_of(request: ChatRequest) -> Role:
    """The role that a request is likely to ask for.

    Whoever is offered tools to read or write with is a worker. Whoever must fill a list of objects, or is asked for a
    plan or subtasks and not to integrate anything, is the planner.
    """
    if Tools(request):
        return Role.WORKER
    schema = wanted_schema(request)
    if schema is not None:
        fields = (resolved(schema, schema).get("properties") or {}).values()
        items = [resolved(schema, resolved(schema, field).get("items") or {}) for field in fields]
        if any(item.get("properties") for item in items):
            return Role.PLANNER
    asked = asked_text(request)
    plans = _PLANS.search(asked) is not None and _INTEGRATES.search(asked) is None
    return Role.PLANNER if plans else Role.INTEGRATOR


class Agent:
    """Answers as planner, worker or integrator."""

    def __init__(
        self,
        *,
        mistakes: Mapping[Mistake, float] | None = None,
        lengths: AgentLengths | None = None,
        scope: int = 1,
        seed: int = 0,
        role: Callable[[ChatRequest], Role] = role_of,
    ) -> None:
        """Args:
        mistakes: share of the conversations that make each; `mistakes.parse_mistakes` reads the form that people type.
        scope: files that a subtask of a good plan holds.
        seed: decides which conversations make a mistake.
        role: how the role is told from a request.

        Raises:
            UsageError: a rate or the scope is out of range.
        """
        if scope < 1:
            raise UsageError(f"A subtask holds at least one file, not {scope}.")
        self._habits = Habits(mistakes or {}, seed)
        self._lengths = lengths or AgentLengths()
        self._scope = scope
        self._role = role

    def __call__(self, request: ChatRequest, rng: random.Random) -> Answer:
        thinking = self._lengths.thinking
        thought = thinking.draw(rng) if thinking is not None and may_think(request) else 0
        turn = Turn.of(request, rng, habits=self._habits, lengths=self._lengths, scope=self._scope)
        return thinking_first(self._answer(turn), thought)

    def _answer(self, turn: Turn) -> Answer:
        role = self._role(turn.request)
        if role is Role.PLANNER:
            return plan(turn)
        if role is Role.WORKER:
            return Worker(turn, Tools(turn.request)).answer()
        return overview(turn)
