"""The calls that decode together: how much they hold, who ends when, and what some steps bring them."""

from __future__ import annotations

import heapq

from widelane.sim.counters import Counters
from widelane.sim.live_call import LiveCall
from widelane.sim.speculation import Drafting
from widelane.sim.step_run import Member, StepRun


class DecodeBatch:
    """The decoding batch.

    Nothing is done for each call in a step: a call's length follows from the number of the step it joined at, and who
    ends next is known when it joins.

    Attributes:
        calls: those in it, in order of joining, by their `order`.
        step: decode steps done so far, by all batches of the engine.
        changes: times a call joined or left.
        context_tokens: tokens that all of its calls have in the cache.
        last_run: the latest run of decode steps.
    """

    def __init__(self, drafting: Drafting, counters: Counters) -> None:
        self.calls: dict[int, LiveCall] = {}
        self.step = 0
        self.changes = 0
        self.context_tokens = 0
        self.last_run = StepRun(start_s=0.0, first_s=0.0, growth_s=0.0, first_step=0, count=0)
        self._drafting = drafting
        self._counters = counters
        self._ends: list[tuple[int, int, LiveCall, Member]] = []
        self._members: tuple[Member, ...] | None = ()

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def members(self) -> tuple[Member, ...]:
        """The calls' places in the batch."""
        if self._members is None:
            self._members = tuple(live.member for live in self.calls.values() if live.member is not None)
        return self._members

    @property
    def growth_tokens(self) -> float:
        """Context that one step adds, on average where tokens are drafted."""
        return len(self.calls) * self._drafting.mean_tokens

    def join(self, live: LiveCall, now_s: float) -> None:
        """The call's prompt has been read and its next token came. If that was its last, `ended` names it at once."""
        rest = live.limit - live.written - 1
        drawn = self._drafting.written(live, rest)
        member = live.join(self.step, now_s, self.last_run, drawn)
        finish_step = self.step + (rest if drawn is None else len(drawn) - 1)
        self._counters.output_tokens += 1
        self.calls[live.order] = live
        self.context_tokens += live.target
        self.changes += 1
        heapq.heappush(self._ends, (finish_step, self.changes, live, member))
        self._members = None

    def leave(self, live: LiveCall) -> None:
        """The call decodes no more."""
        self.context_tokens -= live.cached_at(self.step)
        live.leave(self.step)
        del self.calls[live.order]
        self.changes += 1
        self._members = None

    def steps_to_end(self) -> int:
        """Steps until the next call ends; the batch is not empty."""
        self._skip_gone()
        return self._ends[0][0] - self.step

    def ended(self) -> list[LiveCall]:
        """The calls that have written all, in order of submission. They are still in the batch."""
        ending = []
        self._skip_gone()
        while self._ends and self._ends[0][0] <= self.step:
            ending.append(heapq.heappop(self._ends)[2])
            self._skip_gone()
        return sorted(ending, key=_order)

    def start(self, run: StepRun) -> None:
        """These are the next steps."""
        self.last_run.next = run
        self.last_run = run

    def advance(self, steps: int) -> None:
        """So many steps are over."""
        before, self.step = self.step, self.step + steps
        tokens = steps * len(self.calls)
        if self._drafting.depth:
            tokens = sum(member.tokens(before, self.step) for member in self.members)
            for member in self.members:
                self._counters.count_drafts(member, before, self.step)
        self.context_tokens += tokens
        if self.calls:
            self._counters.count_decoding(len(self.calls), steps, tokens)

    def _skip_gone(self) -> None:
        """Forget ends of calls that left before."""
        while self._ends:
            _, _, live, member = self._ends[0]
            if live.member is member:
                return
            heapq.heappop(self._ends)


def _order(live: LiveCall) -> int:
    return live.order
