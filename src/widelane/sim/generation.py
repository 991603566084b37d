"""One request while it is written: its choices in the engine, and who hears of their tokens."""

from __future__ import annotations

from typing import Protocol

from widelane.sim.events import Failed, FailReason, Finished
from widelane.sim.service import ModelService, Planned, Prepared
from widelane.sim.telling import Piece, Pieces


class Reader(Protocol):
    """Who the reply is for. `index` is that of the choice, times are the engine's."""

    @property
    def watches(self) -> bool:
        """Whether it wants the tokens as they come."""
        ...

    def came(self, index: int, piece: Piece, tokens: int, time_s: float) -> None:
        """The next tokens of a choice."""
        ...

    def choice_over(self, index: int, finish: str) -> None:
        """A choice is whole."""
        ...

    def over(self) -> None:
        """All choices are whole."""
        ...

    def failed(self, reason: FailReason) -> None:
        """The engine gave a choice up; the others are taken back. Nothing more comes."""
        ...


class Generation:
    """The writing of one request.

    Attributes:
        prepared: what is written.
        cached_tokens: prompt tokens taken from the prefix cache; known once a choice has ended.
        written_tokens: output tokens of all choices so far told.
        began_s, first_s, ended_s: when it was offered, when its first token came, and when it was whole.
    """

    def __init__(self, service: ModelService, prepared: Prepared, reader: Reader) -> None:
        self.prepared = prepared
        self.cached_tokens = 0
        self.written_tokens = 0
        self.began_s = service.driver.now_s
        self.first_s: float | None = None
        self.ended_s: float | None = None
        self._driver = service.driver
        self._reader = reader
        calls = service.calls_for(prepared)
        self._live = {call.id for call in calls}
        listeners = [_Choice(self, reader, index, plan) for index, plan in enumerate(prepared.choices)]
        for call, listener in zip(calls, listeners, strict=True):
            self._driver.submit(call, listener)

    def cancel(self) -> None:
        """The client is gone: slots and memory are free at once."""
        live, self._live = self._live, set()
        for call_id in sorted(live):
            self._driver.cancel(call_id)

    def ended(self, call_id: str, event: Finished) -> None:
        """For the choices."""
        self._live.discard(call_id)
        self.cached_tokens = max(self.cached_tokens, event.cached_tokens)
        if not self._live:
            self.ended_s = event.time_s
            self._reader.over()

    def lost(self, event: Failed) -> None:
        """For the choices."""
        self._live.discard(event.call_id)
        self.cancel()
        self._reader.failed(event.reason)


class _Choice:
    """One choice as the driver's listener."""

    __slots__ = ("_generation", "_index", "_pieces", "_plan", "_reader", "watches")

    def __init__(self, generation: Generation, reader: Reader, index: int, plan: Planned) -> None:
        self.watches = reader.watches
        self._generation = generation
        self._reader = reader
        self._index = index
        self._plan = plan
        self._pieces = Pieces(plan.answer)

    def tokens(self, count: int, time_s: float) -> None:
        generation = self._generation
        if generation.first_s is None:
            generation.first_s = time_s
        generation.written_tokens += count
        self._reader.came(self._index, self._pieces.take(count), count, time_s)

    def finished(self, event: Finished) -> None:
        """What was not told as it came (nobody watched, or it was read again after a preemption) comes now."""
        skip = self._pieces.tokens
        for chunk in event.arrivals:
            told = min(skip, chunk.tokens)
            skip -= told
            if chunk.tokens > told:
                self.tokens(chunk.tokens - told, chunk.time_s)
        self._reader.choice_over(self._index, "length" if event.cut else self._plan.finish)
        self._generation.ended(event.call_id, event)

    def failed(self, event: Failed) -> None:
        self._generation.lost(event)
