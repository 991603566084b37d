"""A full pool: vLLM preempts the youngest, llama.cpp's shared pool fails all, a split one lets calls wait."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.hand_cost import HandCost, run_out, starts, story, times
from widelane.errors import UsageError
from widelane.plan.pool.llama_cpp import LlamaCppPool
from widelane.plan.pool.pool import Pool
from widelane.plan.pool.sglang import SglangPool
from widelane.plan.pool.vllm import vllm_pool
from widelane.plan.pool.vllm_layout import CacheKind, Keeps, cache_layout
from widelane.sim.call import SimCall
from widelane.sim.config import BlockPool, EngineConfig, PoolPolicy
from widelane.sim.engine import SimEngine
from widelane.sim.events import Failed, FailReason, Finished, Preempted

FOUR_BLOCKS = BlockPool(capacity=4, block_tokens=4)


def llama_cpp(*, cells: int, pools: int, slots: int) -> LlamaCppPool:
    return LlamaCppPool(
        server="llama.cpp",
        cells=cells,
        pools=pools,
        slot_count=slots,
        kv_bytes=0,
        window_bytes=0,
        recurrent_bytes=0,
        length_limit=cells,
    )


def engine_of(**settings: object) -> SimEngine:
    return SimEngine(EngineConfig(**{"slots": 4, "longest_tokens": 1_024, **settings}), HandCost(), Random(1))  # type: ignore[arg-type]


def test_the_youngest_is_preempted_and_computed_anew_when_the_older_has_ended() -> None:
    """Two calls of 4 + 8 tokens in 4 blocks of 4: when each has 8 tokens, neither can have a third block."""
    engine = engine_of(pool=FOUR_BLOCKS)
    for name in "ab":
        engine.submit(0.0, SimCall(id=name, prompt_tokens=4, output_tokens=8))
    events = run_out(engine)
    preempted = next(event for event in events if isinstance(event, Preempted))
    # Read until 0.08, four steps; the fifth does not fit. b keeps its 5 tokens and later reads 4 + 5 tokens again.
    assert (preempted.call_id, preempted.written_tokens) == ("b", 5)
    assert [(round(at, 2), what, who) for at, what, who in story(events)][6:] == [
        (4.08, "Preempted", "b"),
        (7.08, "Finished", "a"),
        (7.08, "Started", "b"),
        (9.17, "Finished", "b"),
    ]
    finished = next(event for event in events if isinstance(event, Finished) and event.call_id == "b")
    assert [round(chunk.time_s, 2) for chunk in finished.arrivals] == [0.08, 1.08, 2.08, 3.08, 4.08, 7.17, 8.17, 9.17]
    gauges = engine.gauges()
    assert (gauges.preemptions, gauges.prompt_tokens, gauges.computed_tokens) == (1, 8, 4 + 4 + 9)


def test_a_preempted_call_goes_before_those_that_never_ran() -> None:
    engine = engine_of(pool=FOUR_BLOCKS, slots=2)
    for name in "abc":
        engine.submit(0.0, SimCall(id=name, prompt_tokens=4, output_tokens=8))
    assert starts(run_out(engine))[:4] == ["a", "b", "b", "c"]


def test_the_least_important_is_preempted_rather_than_the_youngest() -> None:
    engine = engine_of(pool=FOUR_BLOCKS)
    engine.submit(0.0, SimCall(id="a", prompt_tokens=4, output_tokens=8, priority=2))
    engine.advance(0.0)
    engine.submit(0.0, SimCall(id="b", prompt_tokens=4, output_tokens=8, priority=1))
    assert [event.call_id for event in run_out(engine) if isinstance(event, Preempted)] == ["a"]


def test_room_that_a_preemption_left_is_given_away_at_the_next_boundary() -> None:
    """b gives back two blocks at 4.08, of which a takes one; c, which goes before b, starts one step later."""
    engine = engine_of(pool=FOUR_BLOCKS)
    for name, at, priority in (("a", 0.0, 0), ("b", 0.0, 1), ("c", 2.0, 0)):
        engine.submit(at, SimCall(id=name, prompt_tokens=4, output_tokens=8, priority=priority))
    events = run_out(engine)
    assert times(events, Preempted)["b"] == pytest.approx(4.08)
    assert next(at for at, what, who in story(events) if (what, who) == ("Started", "c")) == pytest.approx(5.08)


def test_a_call_starts_when_its_whole_prompt_fits_and_nobody_overtakes_it() -> None:
    engine = engine_of(pool=FOUR_BLOCKS)
    for name, prompt in (("a", 8), ("long", 9), ("short", 1)):
        engine.submit(0.0, SimCall(id=name, prompt_tokens=prompt, output_tokens=2))
    assert starts(run_out(engine)) == ["a", "long", "short"]
    engine = engine_of(pool=FOUR_BLOCKS)
    engine.submit(0.0, SimCall(id="a", prompt_tokens=8, output_tokens=2))
    engine.submit(0.0, SimCall(id="long", prompt_tokens=9, output_tokens=2))
    events = run_out(engine)
    assert times(events, Finished)["a"] in [at for at, what, who in story(events) if (what, who) == ("Started", "long")]


def test_a_shared_pool_that_is_full_fails_every_running_call() -> None:
    """Four slots on 1,024 cells, four requests of 600 tokens that each fit alone: all fail, at 256 cells each."""
    engine = engine_of(pool=llama_cpp(cells=1_024, pools=1, slots=4), policy=PoolPolicy.FAIL_ALL)
    for name in "abcd":
        engine.submit(0.0, SimCall(id=name, prompt_tokens=200, output_tokens=400))
    engine.submit(0.0, SimCall(id="next", prompt_tokens=200, output_tokens=400))
    events = run_out(engine)
    failed = [event for event in events if isinstance(event, Failed)]
    assert [(event.call_id, event.reason, event.arrivals.tokens) for event in failed] == [
        (name, FailReason.POOL_FULL, 57) for name in "abcd"
    ]
    assert len({event.time_s for event in failed}) == 1
    # The cells are free again: the one that waited is answered whole.
    assert list(times(events, Finished)) == ["next"]
    assert engine.gauges().used_units == 0


def test_prompts_that_do_not_fit_a_shared_pool_fail_too() -> None:
    """Nothing holds them back: both start, the second reads what there are cells for, and then both fail."""
    engine = engine_of(pool=llama_cpp(cells=256, pools=1, slots=4), policy=PoolPolicy.FAIL_ALL, longest_tokens=256)
    for name in "ab":
        engine.submit(0.0, SimCall(id=name, prompt_tokens=200, output_tokens=9))
    events = run_out(engine)
    assert starts(events) == ["a", "b"]
    assert sorted(times(events, Failed)) == ["a", "b"]
    assert engine.gauges().computed_tokens == 256


def test_slots_of_a_split_context_end_at_their_part_and_nobody_fails() -> None:
    pool = llama_cpp(cells=256, pools=4, slots=4)
    engine = engine_of(pool=pool, policy=PoolPolicy.RESERVE, longest_tokens=pool.longest_tokens)
    for name in "abcd":
        engine.submit(0.0, SimCall(id=name, prompt_tokens=200, output_tokens=400))
    finished = [event for event in run_out(engine) if isinstance(event, Finished)]
    assert [(event.cut, event.arrivals.tokens) for event in finished] == [(True, 56)] * 4


def test_reserving_makes_a_call_wait_for_all_that_it_could_take() -> None:
    engine = engine_of(pool=BlockPool(capacity=4, block_tokens=4), policy=PoolPolicy.RESERVE)
    for name in "ab":
        engine.submit(0.0, SimCall(id=name, prompt_tokens=4, output_tokens=8))
    events = run_out(engine)
    assert engine.gauges().preemptions == 0
    assert times(events, Finished)["a"] in [at for at, what, who in story(events) if (what, who) == ("Started", "b")]


def test_a_pool_that_holds_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="does not hold a single sequence"):
        engine_of(pool=BlockPool(capacity=0))


WINDOWED = cache_layout(
    [
        CacheKind(keeps=Keeps.WHOLE, layers=5, token_bytes=4_096),
        CacheKind(keeps=Keeps.WINDOW, layers=25, token_bytes=4_096, window=1_024),
    ],
    longest_tokens=131_072,
)
QWEN_27B = vllm_pool(
    avail_bytes=40 * 2**30,
    n_attn=16,
    kv_heads=4,
    head_dim=256,
    kv_bytes=2,
    max_len=131_072,
    n_rec=48,
    page_rec=3_268_608,
    mode="align",
    spec=2,
)
REAL_POOLS = {
    "vllm hybrid": QWEN_27B,
    "llama.cpp shared": llama_cpp(cells=65_536, pools=1, slots=4),
    "llama.cpp split": llama_cpp(cells=16_384, pools=4, slots=4),
    "sglang windows": SglangPool(
        kv_tokens=100_000, length_limit=65_536, kv_bytes=0, window_tokens=80_000, window=1_024, devices=1
    ),
}


@pytest.mark.parametrize("pool", REAL_POOLS.values(), ids=REAL_POOLS.keys())
@given(some=st.integers(1, 60_000), more=st.integers(1, 60_000))
def test_real_pools_are_what_the_engine_takes_a_pool_for(pool: Pool, some: int, more: int) -> None:
    """More tokens never need less, and a whole no more than its parts: a jump is bounded by it."""
    assert pool.need(some) <= pool.need(some + more) <= pool.need(some) + pool.need(more)


@given(some=st.integers(1, 60_000), more=st.integers(1, 60_000))
def test_a_layout_with_windows_is_too(some: int, more: int) -> None:
    assert WINDOWED.need(some) <= WINDOWED.need(some + more) <= WINDOWED.need(some) + WINDOWED.need(more)
