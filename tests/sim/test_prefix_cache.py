"""What calls take over from earlier ones: shared blocks as in vLLM, a slot's own memory as in llama.cpp."""

from __future__ import annotations

from random import Random

import pytest

from tests.sim.hand_cost import HandCost, run_out, times
from widelane.errors import UsageError
from widelane.sim.call import SimCall
from widelane.sim.config import BlockPool, EngineConfig, PoolPolicy, PrefixCache
from widelane.sim.engine import SimEngine
from widelane.sim.events import Finished, FirstToken, Preempted, Started

SYSTEM = ("system prompt", 64)


def engine_of(**settings: object) -> SimEngine:
    given = {"slots": 4, "longest_tokens": 1_024, "prefix_cache": PrefixCache.BLOCKS, **settings}
    return SimEngine(EngineConfig(**given), HandCost(), Random(1))  # type: ignore[arg-type]


def ask(engine: SimEngine, call: SimCall) -> Finished:
    """Run one call alone."""
    engine.submit(engine.now_s, call)
    return next(event for event in run_out(engine) if isinstance(event, Finished))


def shared(name: str, *prefix: tuple[str, int], prompt: int = 100, output: int = 3, key: str | None = None) -> SimCall:
    return SimCall(id=name, prompt_tokens=prompt, output_tokens=output, prefix=prefix or (SYSTEM,), output_key=key)


def test_what_prompts_begin_with_in_common_is_read_once() -> None:
    engine = engine_of()
    assert [ask(engine, shared(name)).cached_tokens for name in "abc"] == [0, 64, 64]
    gauges = engine.gauges()
    assert (gauges.prefix_query_tokens, gauges.prefix_hit_tokens, gauges.computed_tokens) == (300, 128, 100 + 36 + 36)


def test_a_hit_shortens_the_time_to_the_first_token() -> None:
    engine = engine_of()
    ask(engine, shared("a"))
    started_s = engine.now_s
    engine.submit(started_s, shared("b"))
    assert times(run_out(engine), FirstToken)["b"] - started_s == pytest.approx(0.36)


def test_only_whole_blocks_are_found_and_one_token_is_always_read() -> None:
    engine = engine_of()
    ask(engine, shared("a", ("odd", 70)))
    assert ask(engine, shared("b", ("odd", 70))).cached_tokens == 64
    ask(engine, shared("c", ("all", 96), prompt=96))
    assert ask(engine, shared("d", ("all", 96), prompt=96)).cached_tokens == 80


def test_another_beginning_is_not_found_even_where_a_later_piece_is_the_same() -> None:
    engine = engine_of()
    ask(engine, shared("a", ("one", 32), ("same", 32)))
    assert ask(engine, shared("b", ("two", 32), ("same", 32))).cached_tokens == 0
    assert ask(engine, shared("c", ("one", 32), ("other", 32))).cached_tokens == 32


def test_a_conversation_goes_on_from_what_was_answered() -> None:
    """48 tokens asked, 33 answered (the last one is not in the cache), 31 more asked: 80 tokens are whole blocks."""
    engine = engine_of()
    ask(engine, shared("a", ("question", 48), prompt=48, output=33, key="answer"))
    turn = shared("b", ("question", 48), ("answer", 33), ("again", 31), prompt=112)
    assert ask(engine, turn).cached_tokens == 80


def test_running_calls_share_blocks_and_each_is_counted_once() -> None:
    engine = engine_of(pool=BlockPool(capacity=64))
    for name in "ab":
        engine.submit(0.0, shared(name, output=50))
    engine.advance(1.5)
    assert engine.slots()[1].read_tokens == 100
    # 101 tokens are 7 blocks, of which both have the same 4.
    assert engine.gauges().used_units == 4 + 3 + 3
    engine.cancel(1.5, "a")
    assert engine.gauges().used_units == 7
    engine.cancel(1.5, "b")
    assert engine.gauges().used_units == 0
    assert engine.gauges().cached_units == 4 + 2 + 2  # the started blocks are not whole


def test_what_was_not_used_for_longest_goes_first_when_room_is_needed() -> None:
    """12 blocks: a and b leave 4 each; c runs beside them; d needs 8, and b, used last before c, loses less."""
    engine = engine_of(pool=BlockPool(capacity=12))
    for name in "ab":
        ask(engine, shared(name, (f"of {name}", 64), prompt=65, output=1))
    assert engine.gauges().cached_units == 8
    ask(engine, shared("d", ("of d", 112), prompt=113, output=1))
    assert engine.gauges().cached_units <= 12
    assert ask(engine, shared("again b", ("of b", 64), prompt=65, output=1)).cached_tokens == 64
    assert ask(engine, shared("again a", ("of a", 64), prompt=65, output=1)).cached_tokens == 0


def test_a_preempted_call_finds_what_is_left_of_its_own_cache() -> None:
    engine = engine_of(pool=BlockPool(capacity=4, block_tokens=4), prefix_block_tokens=4)
    for name in "ab":
        engine.submit(0.0, SimCall(id=name, prompt_tokens=4, output_tokens=8))
    events = run_out(engine)
    assert [event.call_id for event in events if isinstance(event, Preempted)] == ["b"]
    # It had two whole blocks; the older call took one block more, and the end of b's was dropped for it.
    assert [event.cached_tokens for event in events if isinstance(event, Started)] == [0, 0, 4]


def test_blocks_that_are_not_the_pools_are_refused() -> None:
    with pytest.raises(UsageError, match="as many tokens as a block"):
        engine_of(pool=BlockPool(capacity=100, block_tokens=800), longest_tokens=8_000, prefix_block_tokens=16)


# --- slots that remember


def slots_of(**settings: object) -> SimEngine:
    return engine_of(prefix_cache=PrefixCache.SLOTS, prefix_block_tokens=1, policy=PoolPolicy.FAIL_ALL, **settings)


def test_a_slot_goes_on_from_its_last_call_token_by_token() -> None:
    engine = slots_of(slots=2)
    assert [ask(engine, shared(name, ("odd", 70))).cached_tokens for name in "abc"] == [0, 70, 70]


def test_the_slot_that_begins_most_alike_is_taken_and_else_the_one_free_for_longest() -> None:
    engine = slots_of(slots=3)
    slots = {}
    for name, prefix in (("a", "x"), ("b", "y"), ("again y", "y"), ("new", "z"), ("again x", "x")):
        engine.submit(engine.now_s, shared(name, (prefix, 64)))
        slots |= {
            event.call_id: (event.slot, event.cached_tokens) for event in run_out(engine) if isinstance(event, Started)
        }
    assert slots == {"a": (0, 0), "b": (1, 0), "again y": (1, 64), "new": (2, 0), "again x": (0, 64)}


def test_a_beginning_of_a_tenth_of_the_prompt_is_too_little_to_choose_a_slot_by() -> None:
    engine = slots_of(slots=2)
    ask(engine, shared("a", ("x", 10)))
    engine.submit(engine.now_s, shared("b", ("x", 10)))
    (started,) = [event for event in run_out(engine) if isinstance(event, Started)]
    assert (started.slot, started.cached_tokens) == (1, 0)


def test_running_calls_cannot_share_a_slots_memory() -> None:
    engine = slots_of(slots=2)
    ask(engine, shared("a"))
    for name in "bc":
        engine.submit(engine.now_s, shared(name))
    assert [event.cached_tokens for event in run_out(engine) if isinstance(event, Started)] == [64, 0]


def test_what_idle_slots_keep_is_thrown_away_before_anybody_fails() -> None:
    engine = slots_of(slots=4, pool=BlockPool(capacity=256, block_tokens=1), longest_tokens=256)
    for name in "ab":
        ask(engine, shared(name, (f"of {name}", 64)))
    assert engine.gauges().cached_units == 2 * 102
    assert ask(engine, shared("c", ("of c", 200), prompt=220, output=10)).arrivals.tokens == 10
    # c ran in the third slot; cells were needed, and slot by slot both others lost theirs.
    assert ask(engine, shared("again a", ("of a", 64))).cached_tokens == 0
