"""The events that have not been handed out: numbered as they are made, handed out in their stated order."""

from __future__ import annotations

from widelane.sim.events import (
    Cancelled,
    Decoded,
    Event,
    Failed,
    FailReason,
    Finished,
    FirstToken,
    Preempted,
    Queued,
    Started,
)
from widelane.sim.live_call import LiveCall
from widelane.sim.step_run import Arrivals, Member, StepRun


class EventLog:
    """Events of one engine; each method keeps one."""

    __slots__ = ("_events", "_made")

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._made = 0

    def __bool__(self) -> bool:
        return bool(self._events)

    def take(self) -> list[Event]:
        """All that were kept since the last time, in order."""
        events, self._events = self._events, []
        events.sort(key=_key)
        return events

    def decoded(self, run: StepRun, members: tuple[Member, ...], first_step: int, end_step: int) -> None:
        self._events.append(
            Decoded(
                time_s=run.end_s(end_step - run.first_step),
                sequence=self._number(),
                members=members,
                run=run,
                first_step=first_step,
                end_step=end_step,
            )
        )

    def first_token(self, live: LiveCall, time_s: float) -> None:
        self._events.append(
            FirstToken(
                time_s=time_s,
                sequence=self._number(),
                call_id=live.call.id,
                cached_tokens=live.cached_tokens or 0,
            )
        )

    def finished(self, live: LiveCall, time_s: float) -> None:
        self._events.append(
            Finished(
                time_s=time_s,
                sequence=self._number(),
                call_id=live.call.id,
                prompt_tokens=live.call.prompt_tokens,
                cached_tokens=live.cached_tokens or 0,
                cut=live.cut,
                arrivals=live.arrivals(),
            )
        )

    def failed(self, call_id: str, time_s: float, reason: FailReason, arrivals: Arrivals) -> None:
        self._events.append(
            Failed(time_s=time_s, sequence=self._number(), call_id=call_id, reason=reason, arrivals=arrivals)
        )

    def queued(self, live: LiveCall, time_s: float) -> None:
        self._events.append(Queued(time_s=time_s, sequence=self._number(), call_id=live.call.id))

    def cancelled(self, live: LiveCall, time_s: float) -> None:
        self._events.append(
            Cancelled(time_s=time_s, sequence=self._number(), call_id=live.call.id, arrivals=live.arrivals())
        )

    def preempted(self, live: LiveCall, time_s: float) -> None:
        self._events.append(
            Preempted(time_s=time_s, sequence=self._number(), call_id=live.call.id, written_tokens=live.written)
        )

    def started(self, live: LiveCall, time_s: float) -> None:
        self._events.append(
            Started(
                time_s=time_s,
                sequence=self._number(),
                call_id=live.call.id,
                slot=live.slot,
                cached_tokens=live.read,
            )
        )

    def _number(self) -> int:
        self._made += 1
        return self._made - 1


def _key(event: Event) -> tuple[float, int, int]:
    return event.key
