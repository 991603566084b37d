"""What follows a failed attempt: the width is cut, the server waited for, the call held back, or the error raised."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from widelane.clock import Clock
from widelane.errors import CallError, ConnectionRefused, PoolOverflow, Retry, ServerLoading, ServerOverloaded
from widelane.lanes.breaker import Breaker, Health
from widelane.lanes.lane_queue import LaneQueue
from widelane.lanes.notices import Incident, IncidentKind
from widelane.lanes.retry import Decision, RetryPolicy, RetryQuota, Then, decide
from widelane.lanes.trace import CallState
from widelane.lanes.width import PoolBound, WidthControl

QUOTA_CHECK_S = 1.0
MOST_SENDINGS = 3
"""Times max_attempts: bound on sendings of one call, those at nobody's charge included."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt, and what was the case when it failed.

    Attributes:
        sent: number of the sending, over the run.
        in_flight, tokens_in_flight: with the failed call itself.
        lost_with_server: the breaker opened while it was under way: the server's death took it along.
    """

    error: CallError
    sent: int
    in_flight: int
    tokens_in_flight: int
    lost_with_server: bool


class Recovery:
    """Acts on failures.

    Attributes:
        incidents: overloads, overflows and down-times, with the width they came at.
        sendings: requests sent in the run so far.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        queue: LaneQueue,
        width: WidthControl,
        pool: PoolBound,
        breaker: Breaker,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.incidents: list[Incident] = []
        self.sendings = 0
        self._policy = policy
        self._queue = queue
        self._width = width
        self._pool = pool
        self._breaker = breaker
        self._clock = clock
        self._rng = rng
        self._quota = RetryQuota(policy)

    def note_sending(self) -> int:
        """A request is about to be sent; its number."""
        self.sendings += 1
        self._quota.sent(asyncio.get_running_loop().time())
        return self.sendings

    def react(self, call: CallState, failure: Failure) -> Decision:
        """Decide, and do at once what concerns all calls: hold the server's queue, cut the width.

        To be called before the failed call's lane is given back, or the next call would be sent into the same fault.
        """
        error = failure.error
        free = failure.lost_with_server or isinstance(error, (ConnectionRefused, ServerLoading))
        call.charged += 0 if free else 1
        decision = decide(error, charged=call.charged, policy=self._policy, rng=self._rng)
        loading = error.retry is Retry.WHEN_READY  # bounded by time alone
        if not loading and call.attempts >= MOST_SENDINGS * self._policy.max_attempts:
            decision = Decision(Then.GIVE_UP)
        self._cut(failure)
        if decision.then is Then.WHEN_UP:
            self._breaker.trip(Health.DOWN)
        elif decision.then is Then.WHEN_READY:
            self._breaker.trip(Health.LOADING)
        elif decision.pause_s > 0:
            self._queue.pause(decision.pause_s)
        return decision

    async def hold(self, failure: Failure, decision: Decision) -> None:
        """Return when the call may be offered again: after its wait, and when the quota of retries allows it.

        Raises:
            CallError: it may not be sent again.
        """
        if decision.then is Then.GIVE_UP:
            raise failure.error
        if decision.then is not Then.WAIT or failure.lost_with_server:
            return  # the queue itself waits for the server
        loop = asyncio.get_running_loop()
        trips = self._breaker.trips
        held_back = False
        while (wait_s := self._quota.take(loop.time(), self._width.ceiling)) > 0:
            if not held_back:
                held_back = True
                self._cut_width(IncidentKind.RETRIES_HELD_BACK, failure)
            await asyncio.sleep(min(wait_s, QUOTA_CHECK_S))
            if self._breaker.trips != trips:
                return  # the server went away meanwhile: the failure was part of that, and no sign of a retry storm
        await asyncio.sleep(decision.wait_s)

    def _cut(self, failure: Failure) -> None:
        error = failure.error
        if isinstance(error, ServerOverloaded):
            self._cut_width(IncidentKind.OVERLOADED, failure)
        elif isinstance(error, PoolOverflow):
            self._cut_pool(failure)
        elif error.retry is Retry.WHEN_UP and self._breaker.passing:
            self._report(IncidentKind.SERVER_DOWN, failure)
        elif error.retry is Retry.WHEN_READY and self._breaker.passing:
            self._report(IncidentKind.LOADING, failure)

    def _cut_width(self, kind: IncidentKind, failure: Failure) -> None:
        if self._width.shed(sent=failure.sent, last_sent=self.sendings, in_flight=failure.in_flight):
            self._report(kind, failure)

    def _cut_pool(self, failure: Failure) -> None:
        lowered = self._policy.adaptive_width and self._pool.overflowed(
            sent=failure.sent, last_sent=self.sendings, tokens_in_flight=failure.tokens_in_flight
        )
        if lowered:
            self._report(IncidentKind.POOL_OVERFLOW, failure)

    def _report(self, kind: IncidentKind, failure: Failure) -> None:
        self.incidents.append(
            Incident(kind, self._clock.now_ns(), failure.in_flight, self._width.current, failure.error.message)
        )
