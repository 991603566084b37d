"""The engine step by step, on costs that are followed by hand: a decode step takes 1 s, a prompt token 10 ms."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from tests.sim.hand_cost import HandCost, run_out, starts, story, times
from widelane.errors import UsageError
from widelane.sim.call import SimCall
from widelane.sim.config import BlockPool, EngineConfig, PrefixCache
from widelane.sim.engine import SimEngine
from widelane.sim.events import Cancelled, Decoded, Failed, FailReason, Finished, FirstToken


def engine_of(slots: int = 4, cost: HandCost | None = None, **settings: object) -> SimEngine:
    config = EngineConfig(slots=slots, **{"longest_tokens": 1_000, **settings})  # type: ignore[arg-type]
    return SimEngine(config, cost or HandCost(), Random(1))


def call(name: str, prompt: int = 100, output: int = 3, **more: object) -> SimCall:
    return SimCall(id=name, prompt_tokens=prompt, output_tokens=output, **more)  # type: ignore[arg-type]


def test_one_call_is_read_in_one_step_and_then_writes_a_token_a_step() -> None:
    engine = engine_of()
    engine.submit(2.0, call("a"))
    events = run_out(engine)
    assert story(events) == [
        (2.0, "Queued", "a"),
        (2.0, "Started", "a"),
        (3.0, "FirstToken", "a"),
        (5.0, "Finished", "a"),
    ]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert [tuple(chunk) for chunk in finished.arrivals] == [(3.0, 1), (4.0, 1), (5.0, 1)]


def test_steps_grow_with_the_context_that_is_written() -> None:
    engine = engine_of(cost=HandCost(context_token_s=0.01))
    engine.submit(0.0, call("a", prompt=100, output=4))
    finished = run_out(engine)[-1]
    assert isinstance(finished, Finished)
    # Read until 1.0; then steps of 1 + 1.00, 1 + 1.01 and 1 + 1.02 s.
    assert [chunk.time_s for chunk in finished.arrivals] == pytest.approx([1.0, 3.0, 5.01, 7.03])


def test_a_call_that_ended_takes_its_context_with_it() -> None:
    engine = engine_of(cost=HandCost(context_token_s=0.01))
    engine.submit(0.0, call("a", prompt=100, output=2))
    engine.submit(0.0, call("b", prompt=100, output=4))
    # Read until 2.0; one step with 200 tokens of context (3 s), then b alone with 101 and 102 (2.01 and 2.02 s).
    assert times(run_out(engine), Finished) == {"a": 5.0, "b": pytest.approx(9.03)}


def test_decoding_waits_for_prompts_that_share_its_step() -> None:
    """Prefill starves decode: the prompt of b takes two steps of 100 tokens, each 1 s longer than others."""
    engine = engine_of(prefill_chunk_tokens=101)
    engine.submit(0.0, call("a", prompt=100, output=6))
    engine.submit(1.5, call("b", prompt=200, output=1))
    events = run_out(engine)
    first = times(events, FirstToken)
    finished = next(event for event in events if isinstance(event, Finished) and event.call_id == "a")
    assert [chunk.time_s for chunk in finished.arrivals] == [1.0, 2.0, 4.0, 6.0, 7.0, 8.0]
    assert first == {"a": 1.0, "b": 6.0}


def test_prompts_are_read_without_decoding_where_the_engine_does_not_mix() -> None:
    """SGLang: a decodes nothing while b is read (from 2.0 to 4.0), and goes on afterwards."""
    engine = engine_of(prefill_shares_steps=False)
    engine.submit(0.0, call("a", prompt=100, output=4))
    engine.submit(1.5, call("b", prompt=200, output=1))
    finished = next(event for event in run_out(engine) if isinstance(event, Finished) and event.call_id == "a")
    assert [chunk.time_s for chunk in finished.arrivals] == [1.0, 2.0, 5.0, 6.0]


def test_a_call_beyond_the_slots_waits_until_one_ends() -> None:
    engine = engine_of(slots=2)
    for name, output in (("a", 5), ("b", 3), ("c", 1)):
        engine.submit(0.0, call(name, output=output))
    events = run_out(engine)
    # a and b are read together until 2.0; b ends two steps later; c is read from then on, with a decoding.
    assert times(events, Finished) == {"b": 4.0, "c": 6.0, "a": 7.0}
    assert starts(events) == ["a", "b", "c"]


def test_a_call_that_arrives_within_a_step_starts_at_the_next_boundary() -> None:
    engine = engine_of()
    engine.submit(0.0, call("a", output=50))
    assert engine.advance(3.0)
    engine.submit(10.25, call("b"))
    events = engine.advance(20.0)
    assert [event for event in story(events) if event[2] == "b"][:2] == [(10.25, "Queued", "b"), (11.0, "Started", "b")]


def test_a_call_submitted_at_a_boundary_joins_it_before_advance_and_misses_it_after() -> None:
    early, late = engine_of(), engine_of()
    for engine in (early, late):
        engine.submit(0.0, call("a", output=50))
    early.submit(5.0, call("b"))
    late.advance(5.0)
    late.submit(5.0, call("b"))
    assert (5.0, "Started", "b") in story(early.advance(9.0))
    assert (6.0, "Started", "b") in story(late.advance(9.0))


def test_calls_of_one_instant_start_by_priority_and_then_in_order_of_submission() -> None:
    engine = engine_of(slots=1)
    for name, priority in (("late", 1), ("first", 0), ("second", 0), ("urgent", -1)):
        engine.submit(0.0, call(name, priority=priority))
    assert starts(run_out(engine)) == ["urgent", "first", "second", "late"]


def test_a_cancelled_call_frees_its_slot_and_its_room_at_once() -> None:
    engine = engine_of(slots=1, pool=BlockPool(capacity=20))
    engine.submit(0.0, call("a", output=50))
    engine.submit(0.0, call("b"))
    engine.advance(3.5)
    # 100 tokens of prompt and three written ones: 7 blocks of 16.
    assert (engine.gauges().running, engine.gauges().used_units) == (1, 7)
    assert engine.cancel(3.5, "a")
    assert (engine.gauges().running, engine.gauges().waiting, engine.gauges().used_units) == (0, 1, 0)
    events = run_out(engine)
    cancelled = next(event for event in events if isinstance(event, Cancelled))
    assert [chunk.time_s for chunk in cancelled.arrivals] == [1.0, 2.0, 3.0]
    # The step in flight ends when it would have.
    assert (4.0, "Started", "b") in story(events)


def test_a_waiting_call_can_be_cancelled_and_an_unknown_one_cannot() -> None:
    engine = engine_of(slots=1)
    engine.submit(0.0, call("a"))
    engine.submit(0.0, call("b"))
    assert engine.cancel(0.0, "b")
    assert not engine.cancel(0.0, "b")
    assert story(engine.advance(0.0)) == [
        (0.0, "Queued", "a"),
        (0.0, "Queued", "b"),
        (0.0, "Cancelled", "b"),
        (0.0, "Started", "a"),
    ]


def test_an_output_ends_with_the_context() -> None:
    engine = engine_of(longest_tokens=103)
    engine.submit(0.0, call("a", prompt=100, output=50))
    finished = run_out(engine)[-1]
    assert isinstance(finished, Finished)
    assert (finished.cut, finished.arrivals.tokens) == (True, 3)


@pytest.mark.parametrize("pool", [None, BlockPool(capacity=6, block_tokens=16)])
def test_a_prompt_that_leaves_no_room_for_an_answer_is_refused(pool: BlockPool | None) -> None:
    """Either the sequence would be longer than the longest, or than the 96 tokens of the whole pool."""
    engine = engine_of(longest_tokens=100, pool=pool)
    engine.submit(0.0, call("a", prompt=100))
    (event,) = engine.advance(0.0)
    assert isinstance(event, Failed)
    assert event.reason is FailReason.PROMPT_TOO_LONG
    assert engine.next_s() is None


def test_a_full_queue_refuses_the_next_call() -> None:
    engine = engine_of(slots=1, max_queue=1)
    for name in "abc":
        engine.submit(0.0, call(name))
    failed = [event for event in engine.advance(0.0) if isinstance(event, Failed)]
    assert [(event.call_id, event.reason) for event in failed] == [("c", FailReason.QUEUE_FULL)]


def test_captured_graphs_make_a_batch_as_slow_as_the_next_size() -> None:
    """Three sequences take the time of four, five are beyond the largest graph and take their own."""

    def step_s(calls: int) -> float:
        engine = engine_of(
            slots=8, cost=HandCost(step_s=0.0, sequence_s=1.0, prompt_token_s=0.0), graph_sizes=(1, 2, 4)
        )
        for number in range(calls):
            engine.submit(0.0, call(str(number), output=2))
        run_out(engine)
        return engine.now_s

    assert [step_s(calls) for calls in (1, 2, 3, 4, 5)] == [1.0, 2.0, 4.0, 4.0, 5.0]


def test_a_line_that_ends_is_asked_for_again() -> None:
    """A window that is full after 102 tokens: steps take 1.00, 1.01 s as they fill it, and 1.02 s from then on."""

    class WindowCost(HandCost):
        def decode_line(self, batch: int, context_tokens: float, draft_depth: int) -> object:  # type: ignore[override]
            line = super().decode_line(batch, context_tokens, draft_depth)
            if context_tokens < 102:
                return line._replace(base_s=0.0, per_token_s=0.01, until_tokens=102)
            return line._replace(base_s=1.02)

    engine = engine_of(cost=WindowCost())
    engine.submit(0.0, call("a", prompt=100, output=6))
    finished = run_out(engine)[-1]
    assert isinstance(finished, Finished)
    arrivals = [chunk.time_s for chunk in finished.arrivals]
    assert [later - earlier for earlier, later in pairwise(arrivals)] == pytest.approx([1.00, 1.01, 1.02, 1.02, 1.02])


def test_noise_is_one_factor_a_boot_within_its_share_and_the_same_for_a_seed() -> None:
    def took_s(seed: int) -> float:
        config = EngineConfig(slots=1, longest_tokens=1_000, noise=0.1)
        engine = SimEngine(config, HandCost(), Random(seed))
        engine.submit(0.0, call("a", output=10))
        run_out(engine)
        return engine.now_s

    factors = [took_s(seed) / 10.0 for seed in range(50)]
    assert factors == [took_s(seed) / 10.0 for seed in range(50)]
    assert all(0.9 <= factor <= 1.1 for factor in factors)
    assert max(factors) > 1.07
    assert min(factors) < 0.93


def test_watching_every_step_sees_each_token_when_it_comes() -> None:
    engine = engine_of()
    engine.submit(0.0, call("a", output=4))
    seen = []
    while (time_s := engine.next_step_s()) is not None:
        decoded = [event for event in engine.advance(time_s) if isinstance(event, Decoded)]
        seen += [(event.time_s, tokens.call_id, tokens.count) for event in decoded for tokens in event.each()]
    assert seen == [(2.0, "a", 1), (3.0, "a", 1), (4.0, "a", 1)]


def test_slots_tell_what_each_call_has_read_and_written() -> None:
    engine = engine_of(prefill_chunk_tokens=60)
    engine.submit(0.0, call("a", prompt=100, output=9))
    engine.advance(0.7)
    (reading,) = engine.slots()
    assert (reading.slot, reading.read_tokens, reading.written_tokens, reading.decoding) == (0, 60, 0, False)
    engine.advance(3.0)
    (writing,) = engine.slots()
    assert (writing.read_tokens, writing.written_tokens, writing.decoding) == (102, 3, True)


def test_gauges_count_tokens_steps_and_busy_slots() -> None:
    engine = engine_of(slots=2)
    for name, output in (("a", 4), ("b", 2)):
        engine.submit(0.0, call(name, output=output))
    run_out(engine)
    gauges = engine.gauges()
    assert (gauges.submitted, gauges.finished, gauges.running, gauges.waiting) == (2, 2, 0, 0)
    assert (gauges.prompt_tokens, gauges.computed_tokens, gauges.output_tokens) == (200, 200, 6)
    # One step of two, then two of one.
    assert (gauges.decode_steps, gauges.busy_slot_steps, gauges.busy_slots_per_decode) == (3, 4, 4 / 3)
    assert gauges.busy_s == 5.0
    assert gauges.pool_use is None


def test_time_does_not_go_back_and_an_id_is_not_given_twice() -> None:
    engine = engine_of()
    engine.submit(5.0, call("a"))
    with pytest.raises(ValueError, match="cannot go back"):
        engine.advance(4.0)
    with pytest.raises(ValueError, match="an id of its own"):
        engine.submit(5.0, call("a"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"slots": 0}, "slots is too small"),
        ({"slots": 4, "prefill_chunk_tokens": 4}, "no room for prompts"),
        ({"slots": 1, "draft_depth": 2, "acceptance": (0.5,)}, "an acceptance for each position"),
        ({"slots": 1, "graph_sizes": (4, 2)}, "rising numbers"),
        ({"slots": 1, "noise": 1.0}, "is no share"),
        ({"slots": 1, "prefix_cache": PrefixCache.SLOTS}, "No engine has"),
        ({"slots": 1, "longest_tokens": 1}, "no room for an answer"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_what_to_do(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        EngineConfig(**{"longest_tokens": 100, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [{"prompt_tokens": 0}, {"output_tokens": 0}, {"prefix": (("a", 0),)}, {"prefix": (("a", 101),)}]
)
def test_a_call_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="'a'"):
        SimCall(**{"id": "a", "prompt_tokens": 100, "output_tokens": 1, **wrong})  # type: ignore[arg-type]
