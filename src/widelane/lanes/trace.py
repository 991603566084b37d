"""The trace of a run: one span a call, and the rows that calls take in the timeline."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from widelane.records import ChatRequest, Delta, Observer, Outcome, Reply, Span, Usage


class Rows:
    """Rows of the timeline: the smallest free one is taken, so that the picture is as dense as the run was."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._used = 0

    def take(self) -> int:
        """The smallest row that holds no call."""
        if self._free:
            return heapq.heappop(self._free)
        self._used += 1
        return self._used - 1

    def give_back(self, row: int) -> None:
        """The call in this row is over."""
        heapq.heappush(self._free, row)


class FirstToken:
    """An observer that notes when output began and how many chunks came, and hands each chunk on.

    Attributes:
        t_ns: arrival of the first chunk with output, None before it.
        chunks: chunks so far: a lower bound of the tokens of a call that never ends.
    """

    __slots__ = ("_observe", "chunks", "t_ns")

    def __init__(self, observe: Observer | None) -> None:
        self._observe = observe
        self.t_ns: int | None = None
        self.chunks = 0

    def __call__(self, delta: Delta) -> None:
        self.chunks += 1
        if self.t_ns is None:
            self.t_ns = delta.t_ns
        if self._observe is not None:
            self._observe(delta)


@dataclass(slots=True, kw_only=True)
class CallState:
    """One call while it is under way.

    Attributes:
        sequence: its place in the order of offering.
        begun: whether its task has run at all.
        row: its row in the timeline once it started; kept over attempts.
        attempts: requests sent.
        charged: attempts that count against the limit.
        used_tokens: tokens of ended attempts, as far as known.
    """

    request: ChatRequest
    key: str
    role: str
    parent: str | None
    priority: int
    sequence: int
    queued_ns: int
    watch: FirstToken
    observe: Observer | None
    begun: bool = False
    row: int | None = None
    started_ns: int | None = None
    attempts: int = 0
    charged: int = 0
    resent: bool = False
    used_tokens: int = 0

    def span(
        self,
        ended_ns: int,
        outcome: Outcome,
        reply: Reply | None = None,
        error: str | None = None,
        detail: str | None = None,
    ) -> Span:
        """The call's span, with what is known of it so far."""
        usage: Usage | None = reply.usage if reply is not None else None
        first_ns = self.watch.t_ns
        if first_ns is None and reply is not None:
            first_ns = reply.timing.first_token_ns
        return Span(
            key=self.key,
            parent=self.parent,
            role=self.role,
            lane=self.row or 0,
            queued_ns=self.queued_ns,
            started_ns=self.started_ns,
            first_token_ns=first_ns,
            ended_ns=ended_ns,
            prompt_tokens=usage.prompt_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            output_tokens=usage.completion_tokens if usage else None,
            attempts=self.attempts,
            outcome=outcome,
            error=error,
            detail=detail,
        )
