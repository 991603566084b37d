"""A call while it runs, and the record that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field

from widelane.clock import Clock
from widelane.errors import CallError
from widelane.lanes.lanes import Lanes
from widelane.measure.calls import CallRecord
from widelane.records import ChatRequest, Delta, Reply, UsageOrigin


@dataclass(slots=True, kw_only=True)
class LiveCall:
    """One measured call.

    Attributes:
        base_ns: instant of the clock that the record's times count from.
        sent_ns: when it was offered, from the base.
        chunk_ns: arrival of its chunks so far, from the base.
        over: it ended, well or not.
    """

    base_ns: int
    opening: bool = False
    full_length: bool = True
    sent_ns: int = 0
    chunk_ns: list[int] = field(default_factory=list)
    over: bool = False
    _ended: CallRecord | None = None

    async def run(self, lanes: Lanes, request: ChatRequest, clock: Clock, *, role: str) -> CallRecord:
        """Make the call; a failure is a record, too."""
        self.sent_ns = clock.now_ns() - self.base_ns
        try:
            reply = await lanes.call(request, role=role, observe=self.saw)
        except CallError as error:
            self._ended = self._cut(clock.now_ns(), failure=error.code)
        else:
            self._ended = self._whole(reply)
        self.over = True
        return self._ended

    def saw(self, delta: Delta) -> None:
        """Note a chunk."""
        self.chunk_ns.append(delta.t_ns - self.base_ns)

    def record(self, now_ns: int) -> CallRecord:
        """The record, of an unfinished call when it is not over."""
        return self._ended or self._cut(now_ns, failure=None)

    def _whole(self, reply: Reply) -> CallRecord:
        timing, usage = reply.timing, reply.usage
        return CallRecord(
            sent_ns=timing.sent_ns - self.base_ns,
            ended_ns=timing.ended_ns - self.base_ns,
            chunk_ns=tuple(t_ns - self.base_ns for t_ns in timing.chunk_ns),
            output_tokens=usage.completion_tokens if usage else None,
            prompt_tokens=usage.prompt_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            counted_tokens=usage is None or usage.origin is UsageOrigin.COUNTED,
            streamed=timing.streamed,
            opening=self.opening,
            full_length=self.full_length,
        )

    def _cut(self, now_ns: int, *, failure: str | None) -> CallRecord:
        return CallRecord(
            sent_ns=self.sent_ns,
            ended_ns=now_ns - self.base_ns,
            chunk_ns=tuple(self.chunk_ns),
            failure=failure,
            finished=failure is not None,
            opening=self.opening,
            full_length=self.full_length,
        )
