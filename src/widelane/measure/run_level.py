"""One level of a sweep, run: `concurrency` calls kept in flight until the throughput is known or time is up.

Everything that decides is in pure parts (`windows`, `level`, `stopping`); here is the waiting.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from widelane.clock import Clock
from widelane.engines.engine import Engine
from widelane.errors import WidelaneError
from widelane.lanes.lanes import Lanes
from widelane.measure.calls import CallRecord, decoding_together, tokens_in_window
from widelane.measure.client_watch import ClientWatch
from widelane.measure.first_calls import length_fields
from widelane.measure.gauge_watch import GaugeWatch
from widelane.measure.level import Repeat
from widelane.measure.level_plan import Ending, LevelPlan, LevelResult, Now
from widelane.measure.live_call import LiveCall
from widelane.measure.windows import Window, Windows, opening_lengths
from widelane.measure.workload import CallMaker
from widelane.records import Delta, Span

POLL_S = 0.25
"""How often progress is told and the server's gauges are read."""
_FAILURE_WAIT_S = (0.05, 1.0)
_LEAST_WAIT_S = 0.001
"""Less is not worth waiting for, and may be below the resolution of the event loop's timers."""
_MOST_SPANS = 600


@dataclass(slots=True, kw_only=True)
class _LevelCall(LiveCall):
    """A call that tells the windows of its first token."""

    windows: Windows

    def saw(self, delta: Delta) -> None:
        if not self.chunk_ns:
            self.windows.first_token(opening=self.opening, shortened=not self.full_length)
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
        self._windows = Windows(plan.concurrency, plan.min_window_s, plan.shortened)
        self._watch = ClientWatch(clock)
        self._live: dict[int, _LevelCall] = {}
        self._ended: list[CallRecord] = []
        self._fresh: list[CallRecord] = []  # ended since the last cut
        self._cuts: asyncio.Queue[Repeat] = asyncio.Queue()
        self._repeats: list[Repeat] = list(plan.earlier)
        self._numbered = len(plan.earlier)
        self._sent = 0
        self._failed_in_a_row = 0
        self._gauges = GaugeWatch(engine)

    async def run(self) -> LevelResult:
        """Run the level.

        Cancelling it cancels its calls; what was kept before stays kept.

        Raises:
            WidelaneError: a repeat could not be kept.
        """
        ending = Ending.STOPPED
        lengths: list[int | None] = [*opening_lengths(self._plan.shortened, self._plan.output_tokens)]
        self._rng.shuffle(lengths)
        lengths += [None] * (self._plan.concurrency - len(lengths))
        await self._gauges.begin()
        failure: WidelaneError | None = None
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._worker(length)) for length in lengths]
            tasks.append(group.create_task(self._watch.run()))
            try:
                ending = await self._until_done()
            except WidelaneError as error:  # kept out of the group, which would wrap it
                failure = error
            finally:
                for task in tasks:
                    task.cancel()
        if failure is not None:
            raise failure
        return LevelResult(repeats=tuple(self._repeats), ending=ending, tail=self._take_fresh(), spans=self._timeline())

    # --- the calls

    async def _worker(self, opening_length: int | None) -> None:
        """One call after another: the first shortened unless `opening_length` is None, the others whole."""
        await self._call(opening_length, opening=True)
        while True:
            await self._call(None, opening=False)

    async def _call(self, shortened: int | None, *, opening: bool) -> None:
        tokens = self._plan.output_tokens if shortened is None else shortened
        number = self._sent
        self._sent += 1
        group = f"{self._plan.concurrency}/{len(self._plan.earlier)}"
        request = self._maker.request(group, number, tokens, length_fields(self._maker, self._engine, tokens))
        call = _LevelCall(
            base_ns=self._base_ns,
            opening=opening,
            full_length=shortened is None,
            windows=self._windows,
        )
        self._live[number] = call
        record = await call.run(self._lanes, request, self._clock, role="measure")
        del self._live[number]
        self._ended.append(record)
        self._fresh.append(record)
        window = self._windows.ended(
            record.ended_ns,
            opening=opening,
            had_token=bool(call.chunk_ns),
            shortened=shortened is not None,
            in_one_piece=record.buffered or not record.streamed,
        )
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
        self._numbered += 1
        return Repeat(
            number=self._numbered - 1,
            window_s=(window.end_ns - window.start_ns) / 1e9,
            output_tokens=tokens_in_window(calls, window.start_ns, window.end_ns),
            calls=self._take_fresh(),
            decoding_together=decoding_together(calls),
            unfinished=len(in_flight),
            client=self._watch.take(),
            cut_short=cut_short,
        )

    def _take_fresh(self) -> tuple[CallRecord, ...]:
        """The calls that ended since this was last asked for."""
        steady_ns = self._windows.steady_ns
        fresh, self._fresh = self._fresh, []
        return tuple(replace(call, opening=steady_ns is None or call.sent_ns < steady_ns) for call in fresh)

    def _in_flight(self) -> list[CallRecord]:
        now_ns = self._clock.now_ns()
        return [call.record(now_ns) for call in self._live.values()]

    async def _until_done(self) -> Ending:
        """Take repeats as they come until the level is known, time is up, or it fails."""
        while True:
            left_s = self._plan.seconds_for(len(self._repeats)) - self._now_ns() / 1e9
            if left_s < _LEAST_WAIT_S or self._stop.is_set():
                await self._cut_short()
                return Ending.STOPPED if self._stop.is_set() else Ending.TIME
            if self._failing():
                await self._cut_short()
                return Ending.FAILING
            try:
                repeat = await asyncio.wait_for(self._cuts.get(), min(POLL_S, left_s))
            except TimeoutError:
                await self._gauges.poll()
                self._tell()
                continue
            await self._finish(repeat)
            if self._plan.stopping.precise(self._repeats, self._plan.concurrency):
                return Ending.PRECISE
            if self._plan.stopping.exhausted(self._repeats, self._plan.concurrency):
                return Ending.REPEATS

    async def _finish(self, repeat: Repeat) -> None:
        told = await self._gauges.take()
        whole = replace(repeat, preemptions=told.preemptions, kv_usage=told.kv_usage)
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
