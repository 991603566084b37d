"""Does a dropped stream free its slot?

Best-of-N lives by it: the losers of a race are dropped. Where the server shows how many calls it runs, that is watched;
elsewhere all slots are filled, dropped, and a short call must get through at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure, Finding, Origin
from widelane.measure.findings import build
from widelane.measure.probes.probe import ProbeContext
from widelane.metrics import ttft_s
from widelane.records import ChatRequest, Delta

CODE = "cancel-not-freeing"
LONGEST_STREAM_TOKENS = 4096
"""So long that no dropped stream ends by itself while it is watched, where the context has room for it."""
MOST_STREAMS = 8
START_S, WATCH_S, LOOK_EVERY_S = 12.0, 8.0, 0.05
PROMPT_S = 2.0
"""A slot that is free within this time is free at once, as far as a person can tell."""
SETTLE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """What was seen after the streams were dropped.

    Attributes:
        streams: how many were dropped.
        seconds: until the slots were free; None when they were not within `watched_s`.
        inferred: True when it was concluded from the wait of a further call.
    """

    streams: int
    seconds: float | None
    watched_s: float
    inferred: bool


class CancelFrees:
    """Dropped streams that go on in the server."""

    name = "cancel"
    codes = (CODE,)
    seconds = 30.0

    def applies(self, context: ProbeContext) -> str | None:
        return None

    async def run(self, context: ProbeContext) -> list[Finding]:
        gauges = await context.engine.gauges()
        if gauges.running is not None:
            freed = await _watch_gauge(context, gauges.running)
            if freed is not None:
                return [judge(freed, context.facts)]
        slots = context.facts.slots.number
        if slots is None or slots > MOST_STREAMS:
            known = "unknown" if slots is None else f"{slots:.0f}, too many to fill"
            return [build.not_checked(CODE, f"the server does not show what it runs, and its slots are {known}")]
        followed = await _watch_follower(context, int(slots))
        if followed is None:
            return [build.not_checked(CODE, f"not every one of {slots:.0f} streams began within {START_S:.0f} s")]
        return [judge(followed, context.facts)]


def judge(freed: Freed, facts: ServerFacts) -> Finding:
    """The finding from how long the slots stayed taken."""
    how = "inferred from a call that followed" if freed.inferred else "probed"
    many = f"{freed.streams} dropped streams"
    if freed.seconds is None:
        return build.error(
            CODE,
            "A dropped stream keeps its slot.",
            f"{many}: still running {freed.watched_s:.0f} s later ({how}). Every cancelled call goes on at full cost.",
            fix_for(CODE, facts),
        )
    taken = f"{many} freed their slots in {freed.seconds:.2f} s ({how})."
    if freed.seconds <= PROMPT_S:
        return build.healthy(CODE, f"A dropped stream frees its slot in {freed.seconds:.1f} s ({how}).", taken)
    gain = Figure(round(freed.seconds, 1), "s", Origin.PREDICTED, reason="of slot time saved at each cancelled call")
    return build.warning(CODE, f"A dropped stream keeps its slot for {freed.seconds:.1f} s.", taken, gain=gain)


async def _watch_gauge(context: ProbeContext, before: float) -> Freed | None:
    """Watches the server's own count of running calls; None when that count does not move with our streams."""
    slots = int(context.facts.slots.number or 2)
    streams = _Streams(context, min(slots, 2))
    try:
        if not await streams.started():
            return None
        if not await _until(context, lambda running: running > before, START_S):
            return None
    finally:
        dropped_ns = context.clock.now_ns()
        await streams.drop()
    free = await _until(context, lambda running: running <= before, WATCH_S)
    seconds = context.seconds_since(dropped_ns) if free else None
    return Freed(streams=len(streams.tasks), seconds=seconds, watched_s=WATCH_S, inferred=False)


async def _watch_follower(context: ProbeContext, slots: int) -> Freed | None:
    """Fills all slots, drops them, and takes a short call's wait beyond what it needs alone; None if not all began."""
    alone_s = await _short_call_s(context, "one")
    streams = _Streams(context, slots)
    try:
        if not await streams.started():
            return None
    finally:
        await streams.drop()
    try:
        async with asyncio.timeout(WATCH_S + alone_s):
            waited_s = await _short_call_s(context, "two")
    except TimeoutError:
        return Freed(streams=slots, seconds=None, watched_s=WATCH_S, inferred=True)
    return Freed(streams=slots, seconds=max(0.0, waited_s - alone_s), watched_s=WATCH_S, inferred=True)


async def _short_call_s(context: ProbeContext, word: str) -> float:
    """Time to the first token of a tiny call."""
    start_ns = context.clock.now_ns()
    messages = [{"role": "user", "content": f"Say {word}."}]
    reply = await context.call(ChatRequest(messages=messages, max_tokens=1, temperature=0, raw=True))
    return ttft_s(reply.timing) or context.seconds_since(start_ns)


async def _until(context: ProbeContext, reached: Callable[[float], bool], limit_s: float) -> bool:
    """True as soon as the count of running calls is as wanted; gauges of a busy server lag, so they are read often."""
    start_ns = context.clock.now_ns()
    while context.seconds_since(start_ns) < limit_s:
        running = (await context.engine.gauges()).running
        if running is not None and reached(running):
            return True
        await asyncio.sleep(LOOK_EVERY_S)
    return False


class _Streams:
    """Some long streams, each of which says when its first token came."""

    def __init__(self, context: ProbeContext, count: int) -> None:
        self._first = [asyncio.Event() for _ in range(count)]
        self.tasks = [asyncio.ensure_future(self._stream(context, number)) for number in range(count)]

    async def started(self) -> bool:
        """True as soon as every stream has written something, False when that takes too long.

        Raises:
            CallError: a stream failed.
        """
        waiting = asyncio.ensure_future(self._all_first())
        try:
            await asyncio.wait({waiting, *self.tasks}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
            begun = waiting.done()
        finally:
            waiting.cancel()
        for task in self.tasks:
            if task.done() and (failure := task.exception()) is not None:
                raise failure
        return begun

    async def drop(self) -> None:
        """Closes every stream; returns when the connections are closed on this side."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _all_first(self) -> None:
        for event in self._first:
            await event.wait()

    async def _stream(self, context: ProbeContext, number: int) -> None:
        def note(_: Delta) -> None:
            self._first[number].set()

        held = context.facts.context_per_slot.number
        tokens = LONGEST_STREAM_TOKENS if held is None else max(64, min(LONGEST_STREAM_TOKENS, int(held // 2)))
        messages = [{"role": "user", "content": f"Story {number}: tell me all of it."}]
        extra = dict(context.engine.fixed_length(tokens))
        request = ChatRequest(messages=messages, max_tokens=tokens, temperature=0.8, extra=extra, raw=True)
        await context.call(request, note)
