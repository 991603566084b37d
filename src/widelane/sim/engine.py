"""A simulated engine: continuous batching as plain state, moved from event to event. No clock, no tasks, no IO.

    engine = SimEngine(config, cost, random.Random(7))
    engine.submit(0.0, SimCall(id="a", prompt_tokens=100, output_tokens=20))
    while (time_s := engine.next_s()) is not None:
        for event in engine.advance(time_s): ...

Time is what the caller says it is, and never goes back. Rules:

1. The engine computes one step after the other while a call runs. Between steps, and only there, calls start.
2. What is submitted at t before `advance(t)` joins the step that begins at t; what is submitted after it waits for the
   next boundary. Of one instant, calls come in order of submission.
3. A cancelled call leaves at once, with its slot and its room; the step in flight still ends when it would have.
4. Where `advance` is cut changes nothing: `advance(1); advance(2)` gives the events of `advance(2)`.

Steps between two changes of the batch are one jump: their number and length follow from sums, and the times of their
tokens are computed only when asked for.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from random import Random

from widelane.sim.batch import DecodeBatch
from widelane.sim.call import SimCall
from widelane.sim.config import EngineConfig
from widelane.sim.cost_model import CostModel, PromptChunk
from widelane.sim.counters import Counters
from widelane.sim.event_log import EventLog
from widelane.sim.events import Event, Gauges, SlotState
from widelane.sim.live_call import LiveCall
from widelane.sim.padding import padded_batch
from widelane.sim.scheduler import Reading, Scheduler
from widelane.sim.speculation import Drafting
from widelane.sim.step_run import Arrivals, StepRun


@dataclass(slots=True)
class _Work:
    """What the engine computes now: a run of decode steps, or one step that reads prompts (and may decode).

    Attributes:
        run: the decode steps, None when this step decodes nothing.
        reported: how many of them are in events already.
    """

    start_s: float
    end_s: float
    readings: list[Reading]
    run: StepRun | None
    reported: int = 0


class SimEngine:
    """One engine with its queue.

    Attributes:
        config: its settings.
        now_s: up to where it has been told that time has come.
    """

    def __init__(self, config: EngineConfig, cost: CostModel, rng: Random) -> None:
        self.config = config
        self.now_s = 0.0
        self._cost = cost
        self._rng = rng
        self._slowness = 1.0 + config.noise * (2.0 * rng.random() - 1.0) if config.noise else 1.0
        self._counters = Counters(accepted_by_position=[0] * config.draft_depth)
        self._log = EventLog()
        self._drafting = Drafting(config.draft_depth, config.acceptance)
        self._batch = DecodeBatch(self._drafting, self._counters)
        self._scheduler = Scheduler(config, self._batch, self._counters, self._log)
        self._work: _Work | None = None
        self._boundary_s = 0.0

    def __repr__(self) -> str:
        scheduler = self._scheduler
        return (
            f"<SimEngine at {self.now_s:.6f} s: {len(scheduler.running)}/{self.config.slots} running,"
            f" {len(scheduler.waiting)} waiting>"
        )

    # --- what the caller does

    def submit(self, now_s: float, call: SimCall) -> None:
        """Offer a call. The next `advance` tells whether it waits (Queued) or was refused (Failed).

        Raises:
            ValueError: the time lies before `now_s`, or a call of this id waits or runs.
        """
        self._reach(now_s)
        scheduler = self._scheduler
        if call.id in scheduler.waiting or scheduler.find(call.id) is not None:
            raise ValueError(f"call {call.id!r} waits or runs already: give each call an id of its own")
        order = self._counters.submitted
        self._counters.submitted += 1
        reason = scheduler.refusal(call)
        if reason is not None:
            self._counters.failed += 1
            self._log.failed(call.id, now_s, reason, Arrivals(0, ()))
            return
        limit = scheduler.output_limit(call)
        live = LiveCall(
            call=call,
            order=order,
            limit=limit,
            cut=limit < call.output_tokens,
            seed=self._rng.getrandbits(64) if self.config.draft_depth else 0,
            target=call.prompt_tokens,
        )
        if not scheduler.running and not scheduler.waiting:
            self._boundary_s = max(self._boundary_s, now_s)
        scheduler.waiting.push(live)
        self._log.queued(live, now_s)
        if scheduler.room.slots.free:
            self._stop_run(now_s)

    def cancel(self, now_s: float, call_id: str) -> bool:
        """Take a call back; False when none of this id waits or runs.

        Raises:
            ValueError: the time lies before `now_s`.
        """
        self._reach(now_s)
        scheduler = self._scheduler
        if call_id in scheduler.waiting:
            live = scheduler.waiting.withdraw(call_id)
        else:
            found = scheduler.find(call_id)
            if found is None:
                return False
            live = found
            self._report_before(now_s)
            scheduler.room.shrink()
            scheduler.release(live)
        self._stop_run(now_s)
        self._counters.cancelled += 1
        self._log.cancelled(live, now_s)
        return True

    def advance(self, until_s: float) -> list[Event]:
        """All that happened up to `until_s`, that instant included, in the order stated in `sim.events`.

        Raises:
            ValueError: the time lies before `now_s`.
        """
        self._check_time(until_s)
        self._run(until_s)
        work = self._work
        if work is not None and work.run is not None:
            self._report(work, work.run, work.run.ended_by(until_s))
        self.now_s = max(self.now_s, self._boundary_s) if math.isinf(until_s) else until_s
        return self._log.take()

    def next_s(self) -> float | None:
        """When `advance` has something to do if nothing else is submitted: a call starts, reads its last token or ends.

        None when the engine is idle. Asking changes nothing.
        """
        if self._log:
            return self.now_s
        if self._work is not None:
            return self._work.end_s
        return max(self._boundary_s, self.now_s) if self._has_calls else None

    def next_step_s(self) -> float | None:
        """The same, but not beyond the end of the step in flight: for those who watch tokens come one by one."""
        work = self._work
        if self._log or work is None or work.run is None:
            return self.next_s()
        return work.run.end_s(work.reported + 1)

    def gauges(self) -> Gauges:
        """What it has counted and holds, as of the last event handed out."""
        scheduler, counters = self._scheduler, asdict(self._counters)
        kept = tuple(counters.pop("accepted_by_position"))
        return Gauges(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            used_units=scheduler.room.used_units,
            cached_units=scheduler.room.kept_units,
            pool_units=scheduler.room.capacity,
            accepted_tokens=sum(kept),
            accepted_by_position=kept,
            **counters,
        )

    def slots(self) -> tuple[SlotState, ...]:
        """The running calls, by slot."""
        step = self._batch.step
        states = [
            SlotState(
                slot=live.slot,
                call_id=live.call.id,
                prompt_tokens=live.call.prompt_tokens,
                read_tokens=live.cached_at(step),
                written_tokens=live.written_at(step),
            )
            for live in self._scheduler.running.values()
        ]
        return tuple(sorted(states, key=_slot))

    # --- time

    @property
    def _has_calls(self) -> bool:
        return bool(self._scheduler.running or self._scheduler.waiting)

    def _check_time(self, time_s: float) -> None:
        if time_s < self.now_s:
            raise ValueError(f"the engine is at {self.now_s} s and cannot go back to {time_s} s")

    def _reach(self, now_s: float) -> None:
        """Do all that happens before this instant, and nothing of the instant itself."""
        self._check_time(now_s)
        self._run(math.nextafter(now_s, -math.inf))
        self.now_s = now_s

    def _run(self, until_s: float) -> None:
        """Do all steps that end by `until_s`, and begin those that begin by then."""
        while True:
            work = self._work
            if work is None:
                if not self._has_calls or self._boundary_s > until_s:
                    return
                self._work = self._begin(self._boundary_s)
            elif work.end_s > until_s:
                return
            else:
                self._complete(work)

    # --- steps

    def _begin(self, now_s: float) -> _Work | None:
        """Schedule, and start what comes next; None when nothing runs after all."""
        readings = self._scheduler.schedule(now_s)
        batch = len(self._batch) if self.config.prefill_shares_steps or not readings else 0
        if not readings and not batch:
            return None
        context = self._batch.context_tokens if batch else 0
        if not readings:
            run = self._decode_run(now_s, batch, context)
            return _Work(now_s, run.end_s(run.count), readings, run)
        chunks = [PromptChunk(tokens, live.read) for live, tokens in readings]
        seconds = self._slowness * self._cost.mixed_s(chunks, batch, context, self.config.draft_depth)
        if not batch:
            return _Work(now_s, now_s + seconds, readings, None)
        run = StepRun(start_s=now_s, first_s=seconds, growth_s=0.0, first_step=self._batch.step, count=1)
        self._batch.start(run)
        return _Work(now_s, run.end_s(1), readings, run)

    def _decode_run(self, now_s: float, batch: int, context: int) -> StepRun:
        """Decode steps up to the next change: a call ends, the pool is full, or the cost is another line."""
        config = self.config
        computed = padded_batch(batch, config.tokens_per_sequence, config.graph_sizes)
        line = self._cost.decode_line(computed, context, config.draft_depth)
        growth = self._batch.growth_tokens
        steps = self._batch.steps_to_end()
        if math.isfinite(line.until_tokens):
            steps = min(steps, max(1, math.ceil((line.until_tokens - context) / growth)))
        run = StepRun(
            start_s=now_s,
            first_s=self._slowness * line.seconds(context),
            growth_s=self._slowness * line.per_token_s * growth,
            first_step=self._batch.step,
            count=self._scheduler.decode_steps(steps),
        )
        self._batch.start(run)
        return run

    def _complete(self, work: _Work) -> None:
        """The step, or the last of the run, is over: its tokens arrive, and calls end."""
        now_s = work.end_s
        if work.run is not None:
            # Before anybody leaves: what the last step needed has displaced what earlier calls left.
            self._scheduler.room.shrink(work.run.count - work.reported - 1)
            self._report(work, work.run, work.run.count)
        for live in self._scheduler.read(work.readings, now_s):
            if live.written == 1:
                self._counters.prompt_tokens += live.call.prompt_tokens
                self._log.first_token(live, now_s)
        for live in self._batch.ended():
            self._scheduler.release(live, whole=True)
            self._counters.finished += 1
            self._log.finished(live, now_s)
        self._counters.busy_s += now_s - work.start_s
        self._work = None
        self._boundary_s = now_s

    def _report(self, work: _Work, run: StepRun, steps: int) -> None:
        """Hand out the tokens of the run's first `steps` steps, those that were not handed out yet."""
        new = steps - work.reported
        if new <= 0:
            return
        first = self._batch.step
        if self._batch.calls:
            self._log.decoded(run, self._batch.members, first, first + new)
        self._batch.advance(new)
        work.reported = steps

    def _report_before(self, now_s: float) -> None:
        """Hand out the tokens that came before this instant."""
        work = self._work
        if work is not None and work.run is not None:
            self._report(work, work.run, work.run.ended_by(math.nextafter(now_s, -math.inf)))

    def _stop_run(self, now_s: float) -> None:
        """Let the run end at the first boundary that has not passed, as what comes next may differ."""
        work = self._work
        if work is None or work.run is None or work.readings:
            return
        run = work.run
        steps = max(run.ended_by(math.nextafter(now_s, -math.inf)), work.reported) + 1
        if steps < run.count:
            run.count = steps
            work.end_s = run.end_s(steps)


def _slot(state: SlotState) -> int:
    return state.slot
