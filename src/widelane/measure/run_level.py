"""One level of a sweep, run: `concurrency` calls kept in flight until the throughput is known or time is up.

Everything that decides is in pure parts (`windows`, `level`, `stopping`); here is the waiting.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from widelane.clock import Clock
from widelane.engines.engine import Engine, Gauges
from widelane.errors import CallError
from widelane.lanes.lanes import Lanes
from widelane.measure.calls import CallRecord, decoding_together, tokens_in_window
from widelane.measure.client_watch import ClientWatch
from widelane.measure.first_calls import length_fields
from widelane.measure.level import Repeat
from widelane.measure.live_call import LiveCall
from widelane.measure.stopping import Stopping
from widelane.measure.windows import Window, Windows, opening_lengths
from widelane.measure.workload import CallMaker
from widelane.records import Delta, Span

POLL_S = 0.25
"""How often progress is told and the server's gauges are read."""
_FAILURE_WAIT_S = (0.05, 1.0)
_MOST_SPANS = 600
SETTLE_S = 2.0
"""How long cut-off calls may take to leave the server before the next level."""


class Ending(StrEnum):
    """Why a level ended."""

    PRECISE = "precise"
    REPEATS = "repeats"
    TIME = "time"
    FAILING = "failing"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPlan:
    """What to run.

    Attributes:
        seconds: bound on the level.
        earlier: repeats that an interrupted run of this level has left; they count like its own.
    """

    concurrency: int
    output_tokens: int
    seconds: float
    min_window_s: float
    stopping: Stopping
    earlier: tuple[Repeat, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """What came of it: all repeats, with the earlier ones, and the spans for the timeline."""

    repeats: tuple[Repeat, ...]
    ending: Ending
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """How a level stands, for a progress display."""

    concurrency: int
    repeats: int
    elapsed_s: float
    tok_s: float | None


@dataclass(slots=True, kw_only=True)
class _LevelCall(LiveCall):
    """A call that tells the windows of its first token."""

    windows: Windows

    def saw(self, delta: Delta) -> None:
        if not self.chunk_ns:
            self.windows.first_token(opening=self.opening)
        LiveCall.saw(self, delta)


class LevelRun:
    """One run of one level. Used once."""

    def __init__(
        self,
        plan: LevelPlan,
        lanes: Lanes,
        maker: CallMaker,
        engine: Engine,
        *,
        clock: Clock,
        rng: random.Random,
        keep: Callable[[Repeat], Awaitable[None]],
        stop: asyncio.Event,
        progress: Callable[[Now], None] | None = None,
    ) -> None:
        """Args:
        keep: called with every repeat as it is finished; it is durable when this returns.
        stop: when it is set the level ends at once and keeps what is finished.
        """
        self._plan, self._lanes, self._maker, self._engine = plan, lanes, maker, engine
        self._clock, self._rng, self._keep, self._stop, self._progress = clock, rng, keep, stop, progress
        self._base_ns = clock.now_ns()
        self._windows = Windows(plan.concurrency, plan.min_window_s)
        self._watch = ClientWatch(clock)
        self._live: dict[int, _LevelCall] = {}
        self._ended: list[CallRecord] = []
        self._fresh: list[CallRecord] = []  # ended since the last cut
        self._cuts: asyncio.Queue[Repeat] = asyncio.Queue()
        self._repeats: list[Repeat] = list(plan.earlier)
        self._numbered = len(plan.earlier)
        self._sent = 0
        self._failed_in_a_row = 0
        self._preemptions: float | None = None
        self._kv_usage: float | None = None
        self._gauges_told = False

    async def run(self) -> LevelResult:
        """Run the level.

        Cancelling it cancels its calls; what was kept before stays kept.
        """
        ending = Ending.STOPPED
        lengths = opening_lengths(self._plan.concurrency, self._plan.output_tokens)
        self._rng.shuffle(lengths)
        await self._read_gauges(first=True)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._worker(length)) for length in lengths]
            tasks.append(group.create_task(self._watch.run()))
            try:
                ending = await self._until_done()
            finally:
                for task in tasks:
                    task.cancel()
        return LevelResult(repeats=tuple(self._repeats), ending=ending, spans=self._timeline())

    # --- the calls

    async def _worker(self, opening_length: int) -> None:
        """One call after another: the first shortened, the others whole."""
        await self._call(opening_length, opening=True)
        while True:
            await self._call(self._plan.output_tokens, opening=False)

    async def _call(self, tokens: int, *, opening: bool) -> None:
        number = self._sent
        self._sent += 1
        group = f"{self._plan.concurrency}/{len(self._plan.earlier)}"
        request = self._maker.request(group, number, tokens, length_fields(self._maker, self._engine, tokens))
        call = _LevelCall(
            base_ns=self._base_ns,
            opening=opening,
            full_length=tokens == self._plan.output_tokens,
            windows=self._windows,
        )
        self._live[number] = call
        record = await call.run(self._lanes, request, self._clock, role="measure")
        del self._live[number]
        self._ended.append(record)
        self._fresh.append(record)
        window = self._windows.ended(record.ended_ns, opening=opening, had_token=bool(call.chunk_ns))
        if window is not None:
            self._cuts.put_nowait(self._cut(window))
        if record.failure is None:
            self._failed_in_a_row = 0
            return
        self._failed_in_a_row += 1
        least, most = _FAILURE_WAIT_S
        await asyncio.sleep(min(most, least * 2 ** min(10, self._failed_in_a_row)))

    # --- the windows

    def _cut(self, window: Window, *, cut_short: bool = False) -> Repeat:
        in_flight = self._in_flight()
        calls = [*self._ended, *in_flight]
        steady_ns = self._windows.steady_ns
        fresh = tuple(replace(call, opening=steady_ns is None or call.sent_ns < steady_ns) for call in self._fresh)
        self._fresh = []
        self._numbered += 1
        return Repeat(
            number=self._numbered - 1,
            window_s=(window.end_ns - window.start_ns) / 1e9,
            output_tokens=tokens_in_window(calls, window.start_ns, window.end_ns),
            calls=fresh,
            decoding_together=decoding_together(calls),
            unfinished=len(in_flight),
            client=self._watch.take(),
            cut_short=cut_short,
        )

    def _in_flight(self) -> list[CallRecord]:
        now_ns = self._clock.now_ns()
        return [call.record(now_ns) for call in self._live.values()]

    async def _until_done(self) -> Ending:
        """Take repeats as they come until the level is known, time is up, or it fails."""
        while True:
            left_s = self._plan.seconds - self._now_ns() / 1e9
            if left_s <= 0 or self._stop.is_set():
                await self._cut_short()
                return Ending.STOPPED if self._stop.is_set() else Ending.TIME
            if self._failing():
                await self._cut_short()
                return Ending.FAILING
            try:
                repeat = await asyncio.wait_for(self._cuts.get(), min(POLL_S, left_s))
            except TimeoutError:
                await self._read_gauges()
                self._tell()
                continue
            await self._finish(repeat)
            if self._plan.stopping.precise(self._repeats, self._plan.concurrency):
                return Ending.PRECISE
            if self._plan.stopping.exhausted(self._repeats, self._plan.concurrency):
                return Ending.REPEATS

    async def _finish(self, repeat: Repeat) -> None:
        before = self._preemptions
        await self._read_gauges()
        preempted = None if before is None or self._preemptions is None else self._preemptions - before
        whole = replace(repeat, preemptions=preempted, kv_usage=self._kv_usage)
        self._kv_usage = None
        self._repeats.append(whole)
        await self._keep(whole)
        self._tell()

    async def _cut_short(self) -> None:
        """Without any repeat, what was seen until now has to do."""
        while not self._cuts.empty():
            await self._finish(self._cuts.get_nowait())
        if self._repeats:
            return
        start_ns = self._windows.start_ns
        if start_ns is None:
            firsts = [call.chunk_ns[0] for call in [*self._ended, *self._in_flight()] if call.chunk_ns]
            start_ns = min(firsts, default=0)
        now_ns = self._now_ns()
        if now_ns > start_ns:
            await self._finish(self._cut(Window(start_ns, now_ns, 0), cut_short=True))

    def _failing(self) -> bool:
        """Whether going on is pointless: one whole turn of calls failed without a success between."""
        return self._failed_in_a_row >= max(3, self._plan.concurrency)

    # --- beside

    async def _read_gauges(self, *, first: bool = False) -> None:
        if not first and not self._gauges_told:
            return
        try:
            gauges = await self._engine.gauges()
        except CallError:
            return
        self._gauges_told = gauges.preemptions_total is not None or gauges.kv_usage is not None
        if gauges.preemptions_total is not None:
            self._preemptions = gauges.preemptions_total
        if gauges.kv_usage is not None and not first:
            self._kv_usage = max(self._kv_usage or 0.0, gauges.kv_usage)

    def _tell(self) -> None:
        if self._progress is None:
            return
        tok_s = self._repeats[-1].tok_s if self._repeats else None
        self._progress(
            Now(
                concurrency=self._plan.concurrency,
                repeats=len(self._repeats),
                elapsed_s=self._now_ns() / 1e9,
                tok_s=tok_s,
            )
        )

    def _timeline(self) -> tuple[Span, ...]:
        """The level's calls from its start through its second steady window, bounded."""
        spans = sorted(self._lanes.spans, key=lambda span: (span.queued_ns, span.key))
        windows_s = [repeat.window_s for repeat in self._repeats[len(self._plan.earlier) :]][:2]
        steady_ns = self._windows.steady_ns
        if steady_ns is None or not windows_s:
            return tuple(spans[:_MOST_SPANS])
        until_ns = self._base_ns + steady_ns + int(sum(windows_s) * 1e9)
        return tuple(span for span in spans if span.queued_ns <= until_ns)[:_MOST_SPANS]

    def _now_ns(self) -> int:
        return self._clock.now_ns() - self._base_ns


async def settle(engine: Engine) -> None:
    """Wait until the cut-off calls have left the server, as far as it tells."""
    for _ in range(int(SETTLE_S / 0.1)):
        try:
            gauges: Gauges = await engine.gauges()
        except CallError:
            return
        if not gauges.running and not gauges.waiting:
            return
        await asyncio.sleep(0.1)
