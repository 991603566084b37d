"""How many slots a server has, told by its behaviour alone: which calls of a burst decode together.

A burst of equal calls is sent at once. A server with a slot for each decodes them all together; one with fewer lets the
others wait, and each of them begins only after another has ended. The most calls between first and last token at one
time is the number of slots. A second, other burst must say the same.

What must not be mistaken for slots, and why it is not:
- a limit in the client: this client opens a connection for every call, and failing to is an error, not a wait;
- short outputs beside long prefill: calls are short-prompted, the second burst writes half as much again;
- a proxy that buffers: then chunks come in one piece and nothing is said;
- a busy client: an overlap shorter than half a decode step does not count.
A queue in front of the server (a router, HTTP threads) cannot be told apart: what it lets through is the width.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from widelane.clock import Clock
from widelane.engines.engine import Engine
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure, Origin, unknown
from widelane.lanes.lanes import Lanes
from widelane.lanes.retry import RetryPolicy
from widelane.measure.calls import CallRecord, decoding_together
from widelane.measure.first_calls import first_calls, form_of
from widelane.measure.gauge_watch import settle
from widelane.measure.run_burst import BurstPlan, run_burst
from widelane.measure.workload import CallMaker
from widelane.records import Backend

MOST_SLOTS = 32
"""Slots that are counted exactly; beyond, the answer is `at least`."""
_FIRST_WIDTHS = (4, 12, 40)
_OUTPUT_TOKENS = 12
_CHECK_OUTPUT_TOKENS = 18
_FREE_OUTPUT_FACTOR = 2
"""Longer limits where the engine cannot be made to write on, so that early ends cost less of the overlap."""
_PROMPT_TOKENS = 6
_MOST_CHECKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstReading:
    """What one burst says.

    Attributes:
        offered: calls that did not fail.
        together: most calls decoding at one time.
        before_first_end: calls that had their first token before any call had its last: the first wave.
        failed: calls that failed.
        buffered: True when the streams came in one piece, so that nothing is said.
    """

    offered: int
    together: int
    before_first_end: int
    failed: int
    buffered: bool

    @property
    def slots(self) -> int | None:
        """The slots, when calls had to wait; None when all decoded together or nothing is said."""
        return self.together if not self.buffered and 0 < self.together < self.offered else None

    @property
    def clear(self) -> bool:
        """Whether the first wave is exactly as many as decode together, as slots make it."""
        return self.before_first_end == self.together


def read_burst(calls: Sequence[CallRecord]) -> BurstReading:
    """What a burst says; `calls` are all of it, cut-off ones included."""
    good = [call for call in calls if call.failure is None]
    begun = [call for call in good if call.chunk_ns]
    ends = [call.chunk_ns[-1] for call in begun if call.finished]
    first_end_ns = min(ends, default=None)
    told = [call for call in good if call.usable and (call.output_tokens or 0) >= 2]
    in_one_piece = [call for call in told if call.buffered or not call.streamed or len(call.chunk_ns) < 2]
    return BurstReading(
        offered=len(good),
        together=decoding_together(begun),
        before_first_end=sum(first_end_ns is None or call.chunk_ns[0] < first_end_ns for call in begun),
        failed=len(calls) - len(good),
        buffered=bool(told) and len(in_one_piece) > len(told) / 2,
    )


async def infer_slots(
    backend: Backend,
    engine: Engine,
    facts: ServerFacts,
    *,
    clock: Clock,
    rng: random.Random,
    seconds: float = 45.0,
) -> Figure:
    """The number of slots, inferred; exact from 1 to 32.

    Uses nothing of the engine but the fields that fix an output length; `facts` only name the model. Takes about ten
    seconds on a small CPU server, `seconds` at most. The value is None with a reason where behaviour does not tell.

    Raises:
        CallError: the server answers no call at all.
    """
    counter = _SlotCounter(backend, engine, facts, clock, rng, seconds)
    return await counter.count()


class _SlotCounter:
    def __init__(
        self, backend: Backend, engine: Engine, facts: ServerFacts, clock: Clock, rng: random.Random, seconds: float
    ) -> None:
        self._backend, self._engine, self._clock, self._rng = backend, engine, clock, rng
        self._until_ns = clock.now_ns() + int(seconds * 1e9)
        self._seconds = seconds
        model = facts.model.value
        self._maker = CallMaker(
            seed=rng.getrandbits(32),
            endpoint="completions",
            prompt_tokens=_PROMPT_TOKENS,
            forced=bool(engine.fixed_length(_OUTPUT_TOKENS)),
            model=model if isinstance(model, str) else None,
            extra=engine.no_prefix_cache(),
        )
        self._readings: list[BurstReading] = []

    async def count(self) -> Figure:
        async with self._lanes(1) as lanes:
            first = await first_calls(lanes, self._maker, self._engine, "auto")
        self._maker = form_of(self._maker, first.endpoint, with_fields=first.fields_accepted)
        for width in _FIRST_WIDTHS:
            reading = await self._burst(width, _OUTPUT_TOKENS)
            if reading is None:
                return self._out_of_time()
            if reading.buffered or reading.offered < 2:
                return self._nothing(reading)
            if reading.slots is not None:
                return await self._check(reading.slots)
            if reading.failed:
                break
        return self._at_least()

    async def _check(self, slots: int) -> Figure:
        """Bursts of other widths and lengths until two agree, three at most."""
        for number in range(1, _MOST_CHECKS):
            # Not a multiple of the slots, so that the last wave is not whole and the pattern is another one.
            width = slots + max(1, slots // 8) * number
            reading = await self._burst(width, _CHECK_OUTPUT_TOKENS + (number - 1) * _OUTPUT_TOKENS)
            if reading is None:
                break
            if reading.slots == slots and reading.clear:
                return self._agreed(slots)
            slots = max(slots, reading.together)
        counts = [reading.slots for reading in self._readings if reading.slots is not None]
        agreed = max(counts, key=lambda count: (counts.count(count), count))
        if counts.count(agreed) > 1:
            return self._agreed(agreed)
        return Figure(
            agreed, "slots", Origin.INFERRED, low=min(counts), high=max(slots, *counts),
            reason=f"{self._words()} Bursts did not agree, or there was time for one only: not certain.",
        )  # fmt: skip

    async def _burst(self, width: int, tokens: int) -> BurstReading | None:
        """One burst, read; None when time was up before it said anything."""
        left_s = (self._until_ns - self._clock.now_ns()) / 1e9
        if left_s <= 0:
            return None
        tokens = tokens if self._maker.forced else tokens * _FREE_OUTPUT_FACTOR
        plan = BurstPlan(width=width, output_tokens=tokens, seconds=left_s, group=f"burst-{len(self._readings)}")
        async with self._lanes(width) as lanes:
            calls = await run_burst(plan, lanes, self._maker, self._engine, clock=self._clock)
        await settle(self._engine)
        reading = read_burst(calls)
        cut = sum(not call.finished for call in calls)
        if cut and reading.slots is None and reading.together < width:
            return None
        self._readings.append(reading)
        return reading

    def _lanes(self, width: int) -> Lanes:
        return Lanes(self._backend, width=width, clock=self._clock, rng=self._rng, retry=RetryPolicy.none())

    # --- what to say

    def _agreed(self, slots: int) -> Figure:
        return Figure(slots, "slots", Origin.INFERRED, low=slots, high=slots, reason=self._words())

    def _at_least(self) -> Figure:
        widest = max(reading.together for reading in self._readings)
        return Figure(
            widest, "slots", Origin.INFERRED, low=widest,
            reason=f"at least: all {widest} calls of a burst decoded together, and no wider one was tried",
        )  # fmt: skip

    def _nothing(self, reading: BurstReading) -> Figure:
        why = (
            "streams come in one piece (a buffering proxy?), so it does not show which calls decode together"
            if reading.buffered
            else f"{reading.failed} calls of a burst failed"
        )
        return unknown("slots", why, Origin.INFERRED)

    def _out_of_time(self) -> Figure:
        if not self._readings:
            return unknown("slots", f"no burst ended within {self._seconds:g} s", Origin.INFERRED)
        return self._at_least()

    def _words(self) -> str:
        telling = [reading for reading in self._readings if reading.slots is not None]
        bursts = ", ".join(f"{reading.together} of {reading.offered}" for reading in telling)
        return f"Calls of a burst that decoded together: {bursts}; the others began only as one of these ended."
