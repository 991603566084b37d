"""The engine's queue: by priority, then in order of submission; a preempted call keeps its place before later ones."""

from __future__ import annotations

import heapq

from widelane.sim.live_call import LiveCall


class WaitingCalls:
    """Calls that wait for a slot.

    A call that was preempted was submitted before every call that still waits in its priority, so that its old number
    puts it at the head, as vLLM does.
    """

    __slots__ = ("_calls", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int], LiveCall]] = []
        self._calls: dict[str, LiveCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._calls

    def push(self, live: LiveCall) -> None:
        """Let it wait."""
        self._calls[live.call.id] = live
        heapq.heappush(self._heap, (live.rank, live))

    def head(self) -> LiveCall | None:
        """Who is next, None when nobody waits."""
        while self._heap:
            live = self._heap[0][1]
            if self._calls.get(live.call.id) is live:
                return live
            heapq.heappop(self._heap)
        return None

    def pop(self) -> LiveCall:
        """Take the head out; `head` has just named it."""
        live = heapq.heappop(self._heap)[1]
        del self._calls[live.call.id]
        return live

    def withdraw(self, call_id: str) -> LiveCall:
        """Take any call out."""
        return self._calls.pop(call_id)
