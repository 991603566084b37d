"""A call inside the engine: what it has read and written, and what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from widelane.sim.call import SimCall
from widelane.sim.step_run import Arrivals, Member, Span, StepRun


@dataclass(slots=True, eq=False, kw_only=True)
class LiveCall:
    """A call that waits or runs.

    Attributes:
        order: its number among all submitted ones.
        limit: output tokens it will write, fewer than asked for where the context ends (`cut`).
        seed: of its own random numbers, so that what it draws does not depend on who runs beside it.
        slot: its place while it runs.
        target: tokens to read before the next output token: the prompt, and after a preemption what was written.
        read: tokens of `target` that are in the cache.
        written: output tokens when it joined the batch last (or left it).
        member: its place in the decoding batch, None while it waits or reads.
        base: what its length in the cache is at decode step s without speculation, less s.
        shared_units: pool units counted with the prefix cache, as others may use them too.
        cached_tokens: tokens taken over when it started first, None before.
        draws: times it drew from its own random numbers.
    """

    call: SimCall
    order: int
    limit: int
    cut: bool
    seed: int = 0
    slot: int = -1
    target: int = 0
    read: int = 0
    written: int = 0
    member: Member | None = None
    base: int = 0
    shared_units: int = 0
    cached_tokens: int | None = None
    draws: int = 0
    spans: list[Span] = field(default_factory=list)

    @property
    def rank(self) -> tuple[int, int]:
        """Place in the queue: priority first, then order of submission."""
        return (self.call.priority, self.order)

    def written_at(self, step: int) -> int:
        """Output tokens when decode step number `step` begins."""
        member = self.member
        return self.written if member is None else self.written + member.tokens(member.joined_step, step)

    def cached_at(self, step: int) -> int:
        """Tokens in the cache when decode step number `step` begins."""
        member = self.member
        return self.read if member is None else self.target + member.tokens(member.joined_step, step)

    def join(self, step: int, now_s: float, after: StepRun, written: Sequence[int] | None) -> Member:
        """Its prompt has been read and a token came: it decodes from decode step number `step` on.

        Args:
            after: the last decode run so far.
            written: tokens after 0, 1, 2, … steps with speculation; None: one a step.
        """
        self.written += 1
        member = Member(self.call.id, step, written)
        self.member = member
        self.base = self.target - step
        self.spans.append(Span(now_s, after, member))
        return member

    def leave(self, step: int) -> None:
        """It is out of the batch before decode step number `step`; what was written is kept."""
        member = self.member
        if member is not None:
            self.written = self.written_at(step)
            self.spans[-1].steps = step - member.joined_step
            self.member = None

    def forget(self) -> None:
        """Its cache is lost: all must be read again, and what was written too."""
        self.read = 0
        self.slot = -1
        self.shared_units = 0
        self.target = self.call.prompt_tokens + self.written

    def arrivals(self) -> Arrivals:
        """What it has received, once it has left the batch."""
        return Arrivals(self.written, tuple(self.spans))
