"""Runs of steps, and when their tokens come: computed when asked for, never kept one by one.

A run is what the engine does between two changes of its batch: `count` steps, each longer than the one before by the
context that was written meanwhile.

    end of step i (the first is 1) = start + i * first + growth * i * (i - 1) / 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple


class Chunk(NamedTuple):
    """Tokens of one call that arrive together."""

    time_s: float
    tokens: int


@dataclass(slots=True, eq=False, kw_only=True)
class StepRun:
    """Steps of one batch, and the run that came after.

    Attributes:
        start_s: when the first step began.
        first_s, growth_s: length of the first step, and how much longer each is than the one before.
        first_step: number of its first step among all decode steps of the engine.
        count: its steps. It may fall while the run goes on (a call arrives), never below what was reported.
        next: the decode run after this one; what a call received is read along these.
    """

    start_s: float
    first_s: float
    growth_s: float
    first_step: int
    count: int
    next: StepRun | None = None

    def __repr__(self) -> str:
        return f"<StepRun of {self.count} steps from {self.start_s:.6f} s>"

    def end_s(self, steps: int) -> float:
        """When so many of its steps are over."""
        return self.start_s + (steps * self.first_s + self.growth_s * (steps * (steps - 1) / 2))

    def ended_by(self, time_s: float) -> int:
        """Steps that are over at this time, at most `count`."""
        if time_s >= self.end_s(self.count):
            return self.count
        steps = min(self._about(time_s - self.start_s), self.count)
        # The root is off by one at most where rounding has moved it; what `end_s` says is what holds.
        while steps > 0 and self.end_s(steps) > time_s:
            steps -= 1
        while self.end_s(steps + 1) <= time_s:
            steps += 1
        return steps

    def _about(self, elapsed_s: float) -> int:
        """The root of `elapsed = i * first + growth * i * (i - 1) / 2`."""
        if elapsed_s <= 0.0:
            return 0
        half = self.growth_s / 2
        linear = self.first_s - half
        if linear * linear + 4 * half * elapsed_s <= 0.0:
            return self.count
        # Written so that nothing cancels where growth is small; where it is large, the first step is not over at all.
        below = linear + sqrt(linear * linear + 4 * half * elapsed_s)
        return int(2 * elapsed_s / below) if below > 0.0 else 0


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One call in the decoding batch, from one join to the next leave.

    Attributes:
        joined_step: number of its first decode step among all of the engine.
        written: with speculation, its tokens after 0, 1, 2, … decode steps since it joined; None when each step writes
            one.
    """

    call_id: str
    joined_step: int
    written: Sequence[int] | None = None

    def tokens(self, first_step: int, end_step: int) -> int:
        """Tokens that it gets in these steps of the engine (the end excluded)."""
        if self.written is None:
            return end_step - first_step
        return self.written[end_step - self.joined_step] - self.written[first_step - self.joined_step]


@dataclass(slots=True, eq=False)
class Span:
    """A call's tokens between joining the batch and leaving it: one from its prefill, then those of decode steps.

    Attributes:
        token_s: when the prefill that it joined by ended, and its token came.
        after: the last decode run before it joined.
        steps: decode steps it took part in.
    """

    token_s: float
    after: StepRun
    member: Member
    steps: int = 0

    def chunks(self) -> Iterator[Chunk]:
        """Each arrival."""
        yield Chunk(self.token_s, 1)
        run, step, left = self.after.next, self.member.joined_step, self.steps
        while left > 0 and run is not None:
            for index in range(min(run.count, left)):
                yield Chunk(run.end_s(index + 1), self.member.tokens(step, step + 1))
                step += 1
            left -= run.count
            run = run.next


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """All tokens of one call as they came; iterating computes the times.

    Attributes:
        tokens: how many.
    """

    tokens: int
    spans: tuple[Span, ...]

    def __iter__(self) -> Iterator[Chunk]:
        for span in self.spans:
            yield from span.chunks()
