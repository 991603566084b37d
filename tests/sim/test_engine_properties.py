"""What holds in every run of the engine, whatever the settings and whoever comes and goes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.hand_cost import HandCost, run_out
from tests.sim.traces import trace
from widelane.sim.call import SimCall
from widelane.sim.config import BlockPool, EngineConfig, PoolPolicy, PrefixCache
from widelane.sim.engine import SimEngine
from widelane.sim.events import (
    CallEvent,
    Cancelled,
    Decoded,
    Event,
    Failed,
    Finished,
    FirstToken,
    Preempted,
    Queued,
    Started,
)

LONGEST_TOKENS = 200
SEEDS = 200
BUILDS = [
    (policy, cache)
    for policy in PoolPolicy
    for cache in PrefixCache
    if (policy, cache) not in ((PoolPolicy.RECOMPUTE, PrefixCache.SLOTS), (PoolPolicy.FAIL_ALL, PrefixCache.BLOCKS))
]


@st.composite
def configs(draw: st.DrawFn) -> EngineConfig:
    depth = draw(st.sampled_from((0, 0, 1, 3)))
    policy, prefix_cache = draw(st.sampled_from(BUILDS))
    return EngineConfig(
        slots=draw(st.integers(1, 6)),
        longest_tokens=LONGEST_TOKENS,
        pool=draw(st.none() | st.builds(BlockPool, st.integers(4, 80), st.sampled_from((1, 4, 8)))),
        policy=policy,
        prefill_chunk_tokens=draw(st.sampled_from((25, 64, 1_000))),
        prefill_shares_steps=draw(st.booleans()),
        prefix_cache=prefix_cache,
        prefix_block_tokens=8,
        draft_depth=depth,
        acceptance=draw(st.tuples(*[st.floats(0, 1)] * depth)),
        graph_sizes=draw(st.sampled_from(((), (1, 2, 4)))),
        max_queue=draw(st.none() | st.integers(0, 6)),
    )


@st.composite
def calls(draw: st.DrawFn) -> list[tuple[float, SimCall, float | None]]:
    """(when, what, how long until it is taken back), in order of time."""
    offered, now_s = [], 0.0
    for number in range(draw(st.integers(1, 14))):
        now_s += draw(st.sampled_from((0.0, 0.0, 0.7, 3.0, 11.25)))
        pieces = tuple((f"piece {piece}", 8) for piece in draw(st.lists(st.integers(0, 1), max_size=3)))
        call = SimCall(
            id=str(number),
            prompt_tokens=8 * len(pieces) + draw(st.integers(1, 60)),
            output_tokens=draw(st.integers(1, 40)),
            prefix=pieces,
            priority=draw(st.sampled_from((0, 0, 1))),
        )
        offered.append((now_s, call, draw(st.none() | st.none() | st.sampled_from((0.0, 0.5, 4.0, 12.3)))))
    return offered


@dataclass
class Watched:
    """An engine that is looked at after every event.

    Attributes:
        together: what each `advance` gave.
    """

    engine: SimEngine
    together: list[list[Event]] = field(default_factory=list)

    @property
    def events(self) -> list[Event]:
        return [event for events in self.together for event in events]

    def advance(self, until_s: float) -> None:
        while (next_s := self.engine.next_s()) is not None and next_s <= until_s:
            self.together.append(self.engine.advance(next_s))
            self.look()
        self.together.append(self.engine.advance(until_s))
        self.look()

    def look(self) -> None:
        """Slots are never exceeded, and what is held of the pool lies between nothing and all of it."""
        gauges, config = self.engine.gauges(), self.engine.config
        states = self.engine.slots()
        assert 0 <= gauges.running <= config.slots
        assert sorted(state.slot for state in states) == sorted({state.slot for state in states})
        assert all(0 <= state.slot < config.slots for state in states)
        assert gauges.used_units >= 0
        assert gauges.cached_units >= 0
        assert gauges.pool_units is None or gauges.used_units + gauges.cached_units <= gauges.pool_units
        if not states:
            assert gauges.used_units == 0

    def drive(self, offered: list[tuple[float, SimCall, float | None]]) -> Watched:
        """Submit and cancel as stated, and run to the end."""
        todo = [(at, 0, call) for at, call, _ in offered]
        todo += [(at + after, 1, call) for at, call, after in offered if after is not None]
        for at, cancels, call in sorted(todo, key=lambda one: one[0]):
            self.advance_before(at)
            if not cancels:
                self.engine.submit(at, call)
            else:
                self.cancel(at, call.id)
        while (next_s := self.engine.next_s()) is not None:
            self.advance(next_s)
        return self

    def advance_before(self, at_s: float) -> None:
        if at_s > self.engine.now_s:
            self.advance((self.engine.now_s + at_s) / 2)

    def cancel(self, at_s: float, call_id: str) -> None:
        """A running call's slot and room are free at once."""
        self.engine.submit(at_s, SimCall(id=f"probe {call_id}", prompt_tokens=1, output_tokens=1))  # reach `at_s`
        before = self.engine.gauges()
        held = {state.call_id for state in self.engine.slots()}
        if not self.engine.cancel(at_s, call_id):
            return
        after = self.engine.gauges()
        assert after.running == before.running - (call_id in held)
        assert call_id not in {state.call_id for state in self.engine.slots()}
        assert after.used_units <= before.used_units


def watched(config: EngineConfig, cost: HandCost | None = None) -> Watched:
    return Watched(SimEngine(config, cost or HandCost(context_token_s=1e-3, sequence_s=0.01), Random(5)))


@settings(max_examples=80, deadline=None)
@given(configs(), calls())
def test_tokens_are_conserved(config: EngineConfig, offered: list[tuple[float, SimCall, float | None]]) -> None:
    """Every call ends once, a finished one with all its tokens, and all counts tell the same tokens."""
    run = watched(config).drive(offered)
    submitted = {call.id: call for _, call, _ in offered}
    ends = [event for event in run.events if isinstance(event, Finished | Failed | Cancelled)]
    assert max(Counter(event.call_id for event in ends).values()) == 1
    assert set(submitted) <= {event.call_id for event in ends}
    decoded: Counter[str] = Counter()
    for event in run.events:
        if isinstance(event, Decoded):
            for tokens in event.each():
                assert sum(chunk.tokens for chunk in tokens.chunks()) == tokens.count
                decoded[tokens.call_id] += tokens.count
    for end in ends:
        chunks = list(end.arrivals)
        assert sum(chunk.tokens for chunk in chunks) == end.arrivals.tokens
        assert [chunk.time_s for chunk in chunks] == sorted(chunk.time_s for chunk in chunks)
        assert not chunks or chunks[-1].time_s <= end.time_s
        from_prompts = end.arrivals.tokens - decoded[end.call_id]
        preemptions = sum(isinstance(event, Preempted) and event.call_id == end.call_id for event in run.events)
        assert 0 <= from_prompts <= 1 + preemptions
        if isinstance(end, Finished) and end.call_id in submitted:
            call = submitted[end.call_id]
            assert end.arrivals.tokens == call.output_tokens or (end.cut and end.arrivals.tokens < call.output_tokens)
            assert chunks[-1].time_s == end.time_s
    gauges = run.engine.gauges()
    assert gauges.output_tokens == sum(end.arrivals.tokens for end in ends)
    assert gauges.finished + gauges.failed + gauges.cancelled == gauges.submitted
    assert (gauges.running, gauges.waiting, gauges.used_units) == (0, 0, 0)


@settings(max_examples=80, deadline=None)
@given(configs(), calls())
def test_no_slot_is_idle_while_a_call_waits(
    config: EngineConfig, offered: list[tuple[float, SimCall, float | None]]
) -> None:
    """Where neither pool nor step tokens hold calls back, no step begins with a waiting call and a free slot."""
    engine = SimEngine(replace(config, pool=None, prefill_chunk_tokens=10_000), HandCost(), Random(5))

    def step_until(at_s: float) -> None:
        while (step_s := engine.next_step_s()) is not None and step_s <= at_s:
            before_s = engine.now_s
            engine.advance(step_s)
            gauges = engine.gauges()
            assert step_s == before_s or gauges.waiting == 0 or gauges.running == config.slots

    for at_s, call, taken_back_after_s in offered:
        step_until(at_s)
        engine.submit(at_s, call)
        if taken_back_after_s == 0.0:
            engine.cancel(at_s, offered[0][1].id)
    step_until(1e9)


@settings(max_examples=60, deadline=None)
@given(configs(), calls())
def test_events_come_in_the_stated_order(
    config: EngineConfig, offered: list[tuple[float, SimCall, float | None]]
) -> None:
    run = watched(config).drive(offered)
    for events in run.together:
        assert [event.key for event in events] == sorted(event.key for event in events)
    times_s = [event.time_s for event in run.events]
    assert times_s == sorted(times_s)
    assert len({event.sequence for event in run.events}) == len(run.events)
    order = [FirstToken, Finished, Failed, Queued, Cancelled, Preempted, Started]
    assert [kind.rank for kind in (Decoded, *order)] == list(range(8))


@settings(max_examples=60, deadline=None)
@given(configs(), st.lists(st.integers(0, 2), min_size=1, max_size=12))
def test_calls_of_one_instant_start_in_order_of_priority_and_submission(
    config: EngineConfig, priorities: list[int]
) -> None:
    engine = SimEngine(replace(config, pool=None, max_queue=None), HandCost(), Random(5))
    for number, priority in enumerate(priorities):
        engine.submit(0.0, SimCall(id=str(number), prompt_tokens=5, output_tokens=5, priority=priority))
    started = [event.call_id for event in run_out(engine) if isinstance(event, Started)]
    assert started == sorted(map(str, range(len(priorities))), key=lambda name: (priorities[int(name)], int(name)))


@settings(max_examples=60, deadline=None)
@given(configs(), calls(), st.lists(st.floats(0.01, 3.0), min_size=1, max_size=5))
def test_where_advance_is_cut_changes_nothing(
    config: EngineConfig, offered: list[tuple[float, SimCall, float | None]], cuts: list[float]
) -> None:
    """In one go, or in many small pieces: the same calls start, end and get their tokens at the same instants."""

    def happened(pieces: list[float]) -> list[tuple[float, str, str]]:
        engine = SimEngine(config, HandCost(context_token_s=1e-3), Random(5))
        events: list[Event] = []
        for at, call, _ in offered:
            engine.submit(at, call)
        if pieces:
            for index in range(300):
                events += engine.advance(engine.now_s + pieces[index % len(pieces)])
        events += run_out(engine)
        return [(e.time_s, type(e).__name__, getattr(e, "call_id", "")) for e in events if not isinstance(e, Decoded)]

    assert happened(cuts) == happened([])


@settings(max_examples=60, deadline=None)
@given(configs(), calls())
def test_a_jump_is_what_its_steps_are_one_by_one(
    config: EngineConfig, offered: list[tuple[float, SimCall, float | None]]
) -> None:
    """The engine forced to go step by step, asking for the cost of each, does the same at the same times.

    Without drafting: a jump takes the mean of what is kept for the growth of the context within it.
    """
    plain = replace(config, draft_depth=0, acceptance=())

    def happened(*, one_step: bool) -> list[tuple[float, str, str, int | None]]:
        run = watched(plain, HandCost(context_token_s=1e-3, sequence_s=0.01, one_step=one_step))
        for at, call, _ in offered:
            run.engine.submit(at, call)
        return [
            (event.time_s, type(event).__name__, event.call_id, getattr(event, "cached_tokens", None))
            for event in run_out(run.engine)
            if isinstance(event, CallEvent)
        ]

    jumped, stepped = happened(one_step=False), happened(one_step=True)
    assert [one[1:] for one in jumped] == [one[1:] for one in stepped]
    assert [one[0] for one in jumped] == pytest.approx([one[0] for one in stepped], abs=1e-6)


def test_the_same_seed_gives_the_same_trace_in_any_process() -> None:
    """200 seeds in two processes with different PYTHONHASHSEED."""
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join([str(root), str(root / "src")])
    digests = [
        subprocess.run(
            [sys.executable, "-m", "tests.sim.traces", str(SEEDS)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]
    assert len(digests[0].strip()) == 64
    assert digests[0] == digests[1]


def test_traces_of_different_seeds_differ_and_of_one_seed_are_the_same() -> None:
    traces = [trace(seed) for seed in range(20)]
    assert len(set(traces)) == 20
    assert traces == [trace(seed) for seed in range(20)]
