"""The sweep: levels of concurrency, one after another, and what they show together.

Every finished repeat goes into the run's store before the next begins, so a sweep that was killed loses one window,
and a resumed one goes on from there.
"""

from __future__ import annotations

import asyncio
import platform
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from widelane import __version__
from widelane.clock import Clock
from widelane.engines.engine import Engine
from widelane.engines.server_facts import ServerFacts
from widelane.errors import CallError, ConnectionLost, ConnectionRefused
from widelane.lanes.lanes import Lanes
from widelane.lanes.retry import RetryPolicy
from widelane.measure.decoding_cap import find_cap
from widelane.measure.first_calls import first_calls, form_of
from widelane.measure.gauge_watch import settle
from widelane.measure.kept import Kept, LevelEnd, Start, SweepStore
from widelane.measure.ladder import level_seconds, next_level, planned
from widelane.measure.level_plan import Ending, LevelPlan, Now
from widelane.measure.options import SweepOptions, parse_levels, quick_options
from widelane.measure.profile import Level, SweepReport
from widelane.measure.run_level import LevelRun
from widelane.measure.stopping import Stopping
from widelane.measure.sweep_report import build_report, rows
from widelane.measure.workload import CallMaker
from widelane.records import Backend

__all__ = ["Progress", "SweepOptions", "SweepStore", "made_by", "parse_levels", "quick_options", "sweep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How a sweep stands.

    Attributes:
        level: width being measured; 0 while the server is warmed up.
        repeats: steady windows of it so far.
        levels_done: levels finished.
        fraction: how much is done, 0 to 1; of the time where the sweep chooses its levels.
        tok_s: output tokens a second in the last window, None before the first.
        eta_s: seconds until the sweep ends at the latest.
    """

    level: int
    repeats: int
    levels_done: int
    fraction: float
    tok_s: float | None
    eta_s: float


async def sweep(
    backend: Backend,
    engine: Engine,
    facts: ServerFacts,
    options: SweepOptions,
    *,
    clock: Clock,
    rng: random.Random,
    store: SweepStore | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: asyncio.Event | None = None,
) -> SweepReport:
    """Measure the server's width.

    Args:
        clock: must be the backend's own.
        store: repeats are kept in it as they are finished, and those that it holds are not measured again.
        stop: when it is set, the sweep ends at once and reports what is finished (`complete` is then False).

    Raises:
        CallError: the server answers no call at all. Failures at a level are counted in its row instead.
    """
    run = _Sweep(backend, engine, facts, options, clock, rng, store, progress, stop or asyncio.Event())
    await run.measure()
    return run.report()


class _Sweep:
    """State of one sweep."""

    def __init__(
        self,
        backend: Backend,
        engine: Engine,
        facts: ServerFacts,
        options: SweepOptions,
        clock: Clock,
        rng: random.Random,
        store: SweepStore | None,
        progress: Callable[[Progress], None] | None,
        stop: asyncio.Event,
    ) -> None:
        self._backend, self._engine, self._facts, self._options = backend, engine, facts, options
        self._clock, self._rng, self._progress, self._stop = clock, rng, progress, stop
        self._began_ns = clock.now_ns()
        self._began_wall_s = clock.wall_s()
        self._kept = Kept.load(store)
        self._gone_at: int | None = None

    async def measure(self) -> None:
        """Run levels until nothing more is worth it, time is up, or the sweep is stopped."""
        start = self._kept.start or await self._begin()
        maker = form_of(self._maker(start.seed), start.first.endpoint, with_fields=start.first.fields_accepted)
        while (width := self._next()) is not None:
            left_s = self._options.seconds - self._elapsed_s()
            if left_s <= 0 or self._stop.is_set() or self._gone_at is not None:
                return
            plan = planned(self._rows_done(), width, self._options)
            await self._level(width, maker, level_seconds(left_s, width, plan), left_s)

    async def _begin(self) -> Start:
        """Warm the server up and learn how to call it."""
        self._tell(Now(concurrency=0, repeats=0, elapsed_s=0.0, tok_s=None))
        seed = self._rng.getrandbits(32) if self._options.seed is None else self._options.seed
        async with self._lanes(1) as lanes:
            first = await first_calls(lanes, self._maker(seed), self._engine, self._options.endpoint)
        start = Start(seed=seed, first=first)
        await self._kept.put_start(start)
        return start

    async def _level(self, width: int, maker: CallMaker, seconds: float, most_seconds: float) -> None:
        options = self._options
        plan = LevelPlan(
            concurrency=width,
            output_tokens=options.output_tokens,
            seconds=seconds,
            most_seconds=most_seconds,
            min_window_s=options.min_window_s,
            stopping=Stopping(options.precision, options.min_repeats, options.max_repeats),
            slots=self._slots(),
            earlier=tuple(self._kept.repeats.get(width, ())),
        )
        async with self._lanes(width) as lanes:
            run = LevelRun(
                plan,
                lanes,
                maker,
                self._engine,
                clock=self._clock,
                rng=self._rng,
                keep=partial(self._kept.put_repeat, width),
                stop=self._stop,
                progress=self._tell,
            )
            result = await run.run()
        await settle(self._engine)
        if result.ending is Ending.FAILING and not await self._answers():
            self._gone_at = width  # not the level's own failure: a resumed sweep measures it again
            return
        if result.ending is not Ending.STOPPED:
            await self._kept.put_end(
                LevelEnd(concurrency=width, ending=result.ending, tail=result.tail, spans=result.spans)
            )

    async def _answers(self) -> bool:
        """Whether anybody still listens."""
        try:
            await self._engine.gauges()
        except (ConnectionRefused, ConnectionLost):
            return False
        except CallError:
            return True
        return True

    def report(self) -> SweepReport:
        """What is known now."""
        missing = self._next()
        report = build_report(
            self._kept,
            self._options,
            self._facts,
            url=str(getattr(self._backend, "url", "")),
            made=made_by(self._options, self._began_wall_s),
            finished=missing is None,
            missing=[self._missing_words(missing)] if missing is not None else [],
        )
        return replace(report, server_gone=self._gone_at is not None)

    def _missing_words(self, next_width: int) -> str:
        if self._gone_at is not None:
            return f"The server stopped answering while {self._gone_at} calls were in flight; the sweep ended there."
        why = "the sweep was stopped" if self._stop.is_set() else f"its time ({self._options.seconds:g} s) was up"
        if self._options.levels is None:
            return f"The sweep ended before level {next_width} was measured: {why}."
        left = [str(width) for width in sorted(self._options.levels) if width not in self._kept.ends]
        return f"Not (wholly) measured, because {why}: level{'s' * (len(left) > 1)} {', '.join(left)}."

    def _next(self) -> int | None:
        return next_level(self._rows_done(), self._options)

    def _rows_done(self) -> list[Level]:
        return [row for row in rows(self._kept, self._options, self._facts) if row.concurrency in self._kept.ends]

    def _slots(self) -> int | None:
        """Calls that decode together, as seen so far, else as the server says."""
        cap = find_cap(self._rows_done(), self._options.output_tokens)
        if cap is not None:
            return cap.slots
        told = self._facts.slots.number
        return int(told) if told else None

    def _maker(self, seed: int) -> CallMaker:
        return CallMaker(
            seed=seed,
            endpoint=self._options.endpoint,
            prompt_tokens=self._options.prompt_tokens,
            forced=bool(self._engine.fixed_length(self._options.output_tokens)),
            model=self._options.model,
            extra=self._engine.no_prefix_cache(),
        )

    def _lanes(self, width: int) -> Lanes:
        return Lanes(self._backend, width=width, clock=self._clock, rng=self._rng, retry=RetryPolicy.none())

    def _elapsed_s(self) -> float:
        return (self._clock.now_ns() - self._began_ns) / 1e9

    def _tell(self, now: Now) -> None:
        if self._progress is None:
            return
        done = len(self._kept.ends)
        by_time = min(1.0, self._elapsed_s() / self._options.seconds)
        levels = self._options.levels
        self._progress(
            Progress(
                level=now.concurrency,
                repeats=now.repeats,
                levels_done=done,
                fraction=max(by_time, done / len(levels)) if levels else by_time,
                tok_s=now.tok_s,
                eta_s=max(0.0, self._options.seconds - self._elapsed_s()),
            )
        )


def made_by(options: SweepOptions, began_wall_s: float) -> dict[str, str]:
    """What replays a sweep: version, platform, when, and every option as resolved, as words."""
    made = {
        "widelane": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "began": datetime.fromtimestamp(began_wall_s, UTC).isoformat(timespec="seconds"),
    }
    return made | {f"option.{name}": str(value) for name, value in options.as_config().items()}
