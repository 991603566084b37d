"""What happens in the simulated engine, in order: by time, then by rank, then by number.

At one instant the order is that of the classes below: tokens arrive, calls end, calls arrive, calls are taken back, and
last the scheduler preempts and starts. Calls of one rank come in the order in which the engine dealt with them: ending
in order of submission, preempted youngest first, started in the queue's order.

    Decoded < FirstToken < Finished < Failed < Queued < Cancelled < Preempted < Started
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from widelane.sim.step_run import Arrivals, Chunk, Member, StepRun


class FailReason(StrEnum):
    """Why the engine gave up on a call."""

    PROMPT_TOO_LONG = "prompt-too-long"
    """It leaves no room for an answer in the longest sequence, or is more than the pool holds. Refused when
    submitted."""
    QUEUE_FULL = "queue-full"
    """As many wait as may. Refused when submitted."""
    POOL_FULL = "pool-full"
    """llama.cpp's shared pool was full: "Context size has been exceeded." for every running call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened.

    Attributes:
        time_s: when, on the engine's clock.
        sequence: running number; no two events of one engine have the same.
    """

    rank: ClassVar[int]
    time_s: float
    sequence: int

    @property
    def key(self) -> tuple[float, int, int]:
        """What events are ordered by."""
        return (self.time_s, self.rank, self.sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of one call in some steps.

    Attributes:
        count: how many in all.
    """

    call_id: str
    count: int
    decoded: Decoded
    member: Member

    def chunks(self) -> Iterator[Chunk]:
        """One arrival a step; several tokens in one where drafted tokens were kept."""
        run = self.decoded.run
        for step in range(self.decoded.first_step, self.decoded.end_step):
            yield Chunk(run.end_s(step - run.first_step + 1), self.member.tokens(step, step + 1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded(Event):
    """The batch decoded some steps, the last of which ended at `time_s`.

    One event stands for all tokens of all its calls. Reading it is optional: every call's end holds its arrivals.

    Attributes:
        members: the calls that decoded.
        run: when each step ended.
        first_step, end_step: numbers of the steps among all of the engine, the end excluded.
    """

    rank: ClassVar[int] = 0
    members: tuple[Member, ...]
    run: StepRun
    first_step: int
    end_step: int

    @property
    def steps(self) -> int:
        """How many steps."""
        return self.end_step - self.first_step

    def each(self) -> Iterator[Tokens]:
        """The tokens by call, in the order in which the calls joined the batch."""
        for member in self.members:
            count = member.tokens(self.first_step, self.end_step)
            yield Tokens(call_id=member.call_id, count=count, decoded=self, member=member)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEvent(Event):
    """Something that happened to one call."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstToken(CallEvent):
    """The prompt has been read: the first output token arrives.

    Attributes:
        cached_tokens: prompt tokens that were taken over from earlier calls when it was started first.
    """

    rank: ClassVar[int] = 1
    cached_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(CallEvent):
    """All is written; slot and memory are free.

    Attributes:
        cut: it ended because the longest sequence was reached (finish reason `length`), not by itself.
        arrivals: its tokens, `arrivals.tokens` of them.
    """

    rank: ClassVar[int] = 2
    prompt_tokens: int
    cached_tokens: int
    cut: bool
    arrivals: Arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(CallEvent):
    """The engine gave the call up; what had arrived stays with the caller."""

    rank: ClassVar[int] = 3
    reason: FailReason
    arrivals: Arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(CallEvent):
    """It was submitted."""

    rank: ClassVar[int] = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(CallEvent):
    """The caller took it back; slot and memory are free at once."""

    rank: ClassVar[int] = 5
    arrivals: Arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted(CallEvent):
    """It gave back its memory, waits at the head of the queue, and will be computed anew.

    Attributes:
        written_tokens: output tokens so far; they are kept and read again.
    """

    rank: ClassVar[int] = 6
    written_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(CallEvent):
    """It got a slot; for a preempted call, again.

    Attributes:
        slot: its number, from 0.
        cached_tokens: tokens that it need not read.
    """

    rank: ClassVar[int] = 7
    slot: int
    cached_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What the engine has counted, and what it holds now.

    Attributes:
        running, waiting: calls now.
        used_units, cached_units, pool_units: pool units held by running calls, kept for later ones (room that is taken
            when needed), and in all; None in all without a pool.
        submitted, finished, failed, cancelled, preemptions: counts of such calls or happenings.
        prompt_tokens: prompt tokens of calls whose first token came (cached ones included).
        computed_tokens: prompt tokens that steps read, again after a preemption.
        output_tokens: tokens written.
        prefix_query_tokens, prefix_hit_tokens: prompt tokens looked up, and found.
        drafted_tokens, accepted_tokens: with speculation; kept ones by position in `accepted_by_position`.
        decode_steps, busy_slot_steps: steps that decoded, and the sum of their batches.
        busy_s: time in which a step ran.
    """

    running: int
    waiting: int
    used_units: int
    cached_units: int
    pool_units: int | None
    submitted: int
    finished: int
    failed: int
    cancelled: int
    preemptions: int
    prompt_tokens: int
    computed_tokens: int
    output_tokens: int
    prefix_query_tokens: int
    prefix_hit_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    accepted_by_position: tuple[int, ...]
    decode_steps: int
    busy_slot_steps: int
    busy_s: float

    @property
    def pool_use(self) -> float | None:
        """Share of the pool that running calls hold; None without a pool."""
        return self.used_units / self.pool_units if self.pool_units else None

    @property
    def busy_slots_per_decode(self) -> float | None:
        """Mean batch of a decode step; None before the first."""
        return self.busy_slot_steps / self.decode_steps if self.decode_steps else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """One running call as a server's slot list shows it.

    Attributes:
        read_tokens: tokens of the prompt (and, after a preemption, of what was written) that are in the cache.
        prompt_tokens, written_tokens: the prompt's length and the output tokens so far.
    """

    slot: int
    call_id: str
    prompt_tokens: int
    read_tokens: int
    written_tokens: int

    @property
    def decoding(self) -> bool:
        """Whether its prompt has been read."""
        return self.written_tokens > 0 and self.read_tokens >= self.prompt_tokens
