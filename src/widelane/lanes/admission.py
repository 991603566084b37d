"""Who may start next: a queue with priorities, a width, and a bound on the tokens in flight. Pure; no waiting here.

Rules:
1. A lower priority number goes first; within one priority, whoever was offered first (the key is
   `(priority, sequence)`). A call that is sent again keeps its sequence, so it goes before younger ones.
2. Nobody overtakes: when the head does not fit, those behind it wait too. A large call is therefore never starved.
3. At most `width` calls are in flight, and their reserved tokens stay within `pool_tokens`. A call larger than the
   pool starts alone: the server then says what is wrong with it, rather than this queue holding it for ever.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field


@dataclass(order=True, slots=True)
class Ticket:
    """One call's place in the queue.

    Attributes:
        tokens: tokens reserved in the server's pool while it is in flight.
    """

    priority: int
    sequence: int
    tokens: int = field(default=0, compare=False)
    started: bool = field(default=False, compare=False)
    withdrawn: bool = field(default=False, compare=False)


class Admission:
    """The queue and what is in flight.

    Attributes:
        width: calls that may be in flight.
        pool_tokens: bound on reserved tokens in flight; None: unbounded.
        in_flight: calls started and not finished.
        tokens_in_flight: their reserved tokens.
    """

    def __init__(self, width: int, pool_tokens: int | None = None) -> None:
        self.width = width
        self.pool_tokens = pool_tokens
        self.in_flight = 0
        self.tokens_in_flight = 0
        self._queue: list[Ticket] = []

    def __repr__(self) -> str:
        bound = "" if self.pool_tokens is None else f", {self.tokens_in_flight}/{self.pool_tokens} tokens"
        return f"<Admission {self.in_flight}/{self.width} in flight, {self.waiting} waiting{bound}>"

    @property
    def waiting(self) -> int:
        """Calls offered and not started."""
        return sum(not ticket.withdrawn for ticket in self._queue)

    def offer(self, ticket: Ticket) -> None:
        """Put a call into the queue. One that is sent again comes with a new ticket and its old sequence."""
        heapq.heappush(self._queue, ticket)

    def head(self) -> Ticket | None:
        """The call that may start now, None when there is none or it does not fit."""
        while self._queue and self._queue[0].withdrawn:
            heapq.heappop(self._queue)
        if not self._queue or self.in_flight >= self.width:
            return None
        ticket = self._queue[0]
        return ticket if self._fits(ticket.tokens) else None

    def start(self, ticket: Ticket) -> None:
        """Take the head out of the queue and into flight."""
        if not self._queue or self._queue[0] is not ticket:
            raise ValueError("only the head of the queue may start")
        heapq.heappop(self._queue)
        ticket.started = True
        self.in_flight += 1
        self.tokens_in_flight += ticket.tokens

    def refuse(self, ticket: Ticket) -> None:
        """Take a waiting call out of the queue for good."""
        ticket.withdrawn = True

    def finish(self, ticket: Ticket) -> None:
        """The call is over (or waits to be sent again): its place and its tokens are free."""
        if not ticket.started:
            raise ValueError("the call was not in flight")
        ticket.started = False
        self.in_flight -= 1
        self.tokens_in_flight -= ticket.tokens

    def _fits(self, tokens: int) -> bool:
        if self.pool_tokens is None or self.in_flight == 0:
            return True
        return self.tokens_in_flight + tokens <= self.pool_tokens
