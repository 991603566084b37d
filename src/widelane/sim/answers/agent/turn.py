"""What every role of the simulated agent is given."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from widelane.records import ChatRequest
from widelane.sim.answers.agent.mistakes import Habits, Mistake, drifted
from widelane.sim.answers.lengths import Lengths, LogNormal
from widelane.sim.answers.request_text import opening_text


def _about(tokens: float) -> LogNormal:
    return LogNormal(mean_tokens=tokens, spread_tokens=tokens / 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLengths:
    """Tokens of what an agent writes. The defaults are assumptions, not measurements: state your own.

    Attributes:
        plan: the whole plan.
        step: one turn that only calls a tool.
        document: one deliverable, as a file or as text.
        overview: the integration of all deliverables.
        thinking: reasoning before each turn, None for a model that does not think.
    """

    plan: Lengths = field(default_factory=lambda: _about(800))
    step: Lengths = field(default_factory=lambda: _about(60))
    document: Lengths = field(default_factory=lambda: _about(900))
    overview: Lengths = field(default_factory=lambda: _about(1200))
    thinking: Lengths | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request to the agent.

    Attributes:
        opening: what the conversation began with; what habits are fixed by.
        rng: for this turn alone.
        scope: files that a good planner gives one subtask.
    """

    request: ChatRequest
    rng: random.Random
    habits: Habits
    lengths: AgentLengths
    scope: int
    opening: str

    @classmethod
    def of(cls, request: ChatRequest, rng: random.Random, *, habits: Habits, lengths: AgentLengths, scope: int) -> Turn:
        """The turn, its opening read from the request."""
        opening = opening_text(request)
        return cls(request=request, rng=rng, habits=habits, lengths=lengths, scope=scope, opening=opening)

    def makes(self, mistake: Mistake) -> bool:
        """Whether this conversation makes the mistake."""
        return self.habits.has(mistake, self.opening)

    def named(self, names: list[str]) -> list[str]:
        """The names as this conversation spells them: right, or drifted."""
        if not self.makes(Mistake.DRIFTING_NAMES):
            return names
        rng = self.habits.rng(self.opening, "spelling")
        return [drifted(name, rng) for name in names]
