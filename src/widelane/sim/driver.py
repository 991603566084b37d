"""A `SimEngine` on the running event loop: its events come when their time has come, in virtual or in real time.

The engine says when something happens next; the driver sleeps until then. While nobody watches tokens come one by one,
that is a whole jump of decode steps away.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from widelane.errors import UsageError
from widelane.sim.call import SimCall
from widelane.sim.engine import SimEngine
from widelane.sim.events import Decoded, Event, Failed, Finished, FirstToken, Gauges, SlotState

_TOGETHER_S = 1e-6
"""Calls that are offered within this time begin together: tasks woken at one instant need some turns of the loop."""


class Listener(Protocol):
    """Who waits for a call. Times are the engine's."""

    @property
    def watches(self) -> bool:
        """Whether it wants its tokens as they come; else it gets only the end."""
        ...

    def tokens(self, count: int, time_s: float) -> None:
        """So many output tokens came."""
        ...

    def finished(self, event: Finished) -> None:
        """The call is whole; tokens that were not told come with its arrivals."""
        ...

    def failed(self, event: Failed) -> None:
        """The engine gave it up."""
        ...


class EngineDriver:
    """Moves one engine along with the loop's time.

    Args:
        speed: simulated seconds in a second of the loop; None: as fast as the loop turns.
    """

    def __init__(self, engine: SimEngine, *, speed: float | None = 1.0) -> None:
        if speed is not None and not 0 < speed < float("inf"):
            raise UsageError(f"A speed of {speed:g} cannot be: give a number above 0, or max.")
        self._engine = engine
        self._speed = speed
        self._listeners: dict[str, Listener] = {}
        self._watching = 0
        self._origin_s: float | None = None
        self._timer: asyncio.Handle | None = None
        self._due_s = 0.0
        self._advancing = False

    def __repr__(self) -> str:
        return f"<EngineDriver of {self._engine!r}, {len(self._listeners)} listeners>"

    @property
    def now_s(self) -> float:
        """Simulated seconds since the first question to this driver."""
        now_s = self._loop_s() - self._begun_s()
        return self._engine.now_s if self._speed is None else max(now_s * self._speed, self._engine.now_s)

    def loop_s(self, time_s: float) -> float:
        """The loop's time at which the engine's `time_s` comes, or came; now, where the speed is not limited."""
        return self._loop_s() if self._speed is None else self._begun_s() + time_s / self._speed

    def submit(self, call: SimCall, listener: Listener) -> None:
        """Offer a call; `listener` hears of it until it is over or cancelled."""
        now_s = self.now_s
        self._listeners[call.id] = listener
        self._watching += listener.watches
        self._engine.submit(now_s, call)
        self._arm()

    def cancel(self, call_id: str) -> None:
        """Take a call back: nothing more is told of it, and its slot and memory are free at once."""
        if self._drop(call_id) is not None:
            self._engine.cancel(self.now_s, call_id)
            self._arm()

    def gauges(self) -> Gauges:
        """What the engine has counted, up to now."""
        self._catch_up()
        return self._engine.gauges()

    def slots(self) -> tuple[SlotState, ...]:
        """The running calls, as of now."""
        self._catch_up()
        return self._engine.slots()

    def close(self) -> None:
        """Stop moving; nobody is told anything any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._listeners.clear()

    # --- moving

    def _loop_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _begun_s(self) -> float:
        if self._origin_s is None:
            self._origin_s = self._loop_s()
        return self._origin_s

    def _arm(self) -> None:
        """Set the timer for what comes next."""
        if self._advancing:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_s = self._engine.next_step_s() if self._watching else self._engine.next_s()
        if due_s is None:
            return
        self._due_s = due_s
        loop = asyncio.get_running_loop()
        if self._speed is None:
            self._timer = loop.call_soon(self._wake)
        else:
            self._timer = loop.call_at(max(self.loop_s(due_s), loop.time() + _TOGETHER_S), self._wake)

    def _wake(self) -> None:
        self._timer = None
        # A loop's timer may be early by its resolution, and late by any time; the event's own time is what counts.
        self._advance(max(self._due_s, self.now_s))

    def _catch_up(self) -> None:
        if not self._advancing and self._speed is not None:
            self._advance(self.now_s)

    def _advance(self, until_s: float) -> None:
        self._advancing = True
        try:
            for event in self._engine.advance(until_s):
                self._tell(event)
        finally:
            self._advancing = False
        self._arm()

    def _tell(self, event: Event) -> None:
        listeners = self._listeners
        if isinstance(event, Decoded):
            if self._watching:
                self._tell_decoded(event)
        elif isinstance(event, FirstToken):
            listener = listeners.get(event.call_id)
            if listener is not None and listener.watches:
                listener.tokens(1, event.time_s)
        elif isinstance(event, Finished):
            listener = self._drop(event.call_id)
            if listener is not None:
                listener.finished(event)
        elif isinstance(event, Failed):
            listener = self._drop(event.call_id)
            if listener is not None:
                listener.failed(event)

    def _tell_decoded(self, event: Decoded) -> None:
        """Step by step, so that what is seen together came together."""
        for step in range(event.first_step, event.end_step):
            time_s = event.run.end_s(step - event.run.first_step + 1)
            for member in event.members:
                listener = self._listeners.get(member.call_id)
                if listener is not None and listener.watches:
                    listener.tokens(member.tokens(step, step + 1), time_s)

    def _drop(self, call_id: str) -> Listener | None:
        listener = self._listeners.pop(call_id, None)
        if listener is not None:
            self._watching -= listener.watches
        return listener
