"""Where calls wait for a lane: the pure queue, held while the server is away or asked for a pause."""

from __future__ import annotations

import asyncio

from widelane.errors import UsageError
from widelane.lanes.admission import Admission, Ticket
from widelane.lanes.breaker import Breaker
from widelane.lanes.budget import Admit, Ledger
from widelane.lanes.width import PoolBound, WidthControl


class LaneQueue:
    """Gives lanes to calls, as `Admission` orders them and `Ledger` allows them.

    Attributes:
        admission: what is in flight.
        waiting: calls in the queue.
    """

    def __init__(self, width: WidthControl, pool: PoolBound, ledger: Ledger, breaker: Breaker) -> None:
        self.admission = Admission(width.current, pool.tokens)
        self._width = width
        self._pool = pool
        self._ledger = ledger
        self._breaker = breaker
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._paused_until_s = 0.0
        self._resume: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Calls in the queue."""
        return len(self._waiters)

    async def enter(self, priority: int, sequence: int, tokens: int) -> Ticket:
        """Wait for a lane; give it back with `leave`.

        Raises:
            BudgetExhausted: the run's tokens do not allow the call.
            CallError: the server stayed away, and the run was given up.
        """
        refusal = self._breaker.refusal()
        if refusal is not None:
            raise refusal
        if sequence in self._waiters:
            raise UsageError(f"call {sequence} waits already")
        ticket = Ticket(priority, sequence, tokens)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[sequence] = waiter
        self.admission.offer(ticket)
        self.pump()
        try:
            await waiter
        except BaseException:
            if ticket.started:  # the lane came and the cancellation with it
                self.leave(ticket, 0)
            else:
                self.admission.refuse(ticket)
                self._waiters.pop(sequence, None)
                self.pump()
            raise
        return ticket

    def leave(self, ticket: Ticket, used_tokens: int) -> None:
        """The lane is free again; the call took so many tokens."""
        self.admission.finish(ticket)
        self._ledger.settle(ticket.tokens, used_tokens)
        self.pump()

    def pause(self, seconds: float) -> None:
        """Start nothing for a while (Retry-After); the longest of several pauses holds."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + seconds
        if until_s <= self._paused_until_s:
            return
        self._paused_until_s = until_s
        self.close()
        self._resume = loop.call_at(until_s, self.pump)

    def close(self) -> None:
        """Stop the timer."""
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None

    def pump(self) -> None:
        """Start every call that may start now."""
        if self._breaker.refusal() is not None:
            self._refuse_all()
        if not self._breaker.passing or asyncio.get_running_loop().time() < self._paused_until_s:
            return
        self.admission.width = self._width.current
        self.admission.pool_tokens = self._pool.tokens
        while (ticket := self.admission.head()) is not None:
            if self._waiters[ticket.sequence].done():  # cancelled, and its task has not run yet
                self.admission.refuse(ticket)
                continue
            admit = self._ledger.admit(ticket.tokens)
            if admit is Admit.WAIT:
                return
            waiter = self._waiters.pop(ticket.sequence)
            if admit is Admit.EXHAUSTED:
                self.admission.refuse(ticket)
                waiter.set_exception(self._ledger.run_exhausted(ticket.tokens))
                continue
            self.admission.start(ticket)
            self._ledger.reserve(ticket.tokens)
            waiter.set_result(None)

    def _refuse_all(self) -> None:
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            refusal = self._breaker.refusal()
            if refusal is not None and not waiter.done():
                waiter.set_exception(refusal)
