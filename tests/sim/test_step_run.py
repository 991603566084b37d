"""Runs of steps: their ends by the formula and by adding up, and which are over at a time."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.sim.hand_cost import HandCost, run_out
from widelane.sim.call import SimCall
from widelane.sim.config import BlockPool, EngineConfig, PrefixCache
from widelane.sim.engine import SimEngine
from widelane.sim.events import Started
from widelane.sim.padding import padded_batch
from widelane.sim.step_run import StepRun


def run_of(first_s: float, growth_s: float, count: int, start_s: float = 0.0) -> StepRun:
    return StepRun(start_s=start_s, first_s=first_s, growth_s=growth_s, first_step=0, count=count)


def test_steps_of_one_two_and_three_seconds_end_at_one_three_and_six() -> None:
    run = run_of(1.0, 1.0, 3, start_s=10.0)
    assert [run.end_s(steps) for steps in range(4)] == [10.0, 11.0, 13.0, 16.0]
    assert [run.ended_by(time_s) for time_s in (9.0, 10.0, 10.9, 11.0, 12.9, 13.0, 15.9, 16.0, 99.0)] == [
        0, 0, 0, 1, 1, 2, 2, 3, 3,
    ]  # fmt: skip


@given(
    first_s=st.floats(1e-4, 2.0),
    growth_s=st.floats(0.0, 1e-3),
    count=st.integers(1, 20_000),
    start_s=st.floats(0.0, 1e6),
    share=st.floats(-0.1, 1.1),
)
@example(first_s=1e-4, growth_s=7e-4, count=1, start_s=0.0, share=2.4e-267)
def test_the_steps_over_at_a_time_are_those_whose_end_has_come(
    first_s: float, growth_s: float, count: int, start_s: float, share: float
) -> None:
    run = run_of(first_s, growth_s, count, start_s)
    time_s = start_s + share * (run.end_s(count) - start_s)
    ended = run.ended_by(time_s)
    assert 0 <= ended <= count
    assert ended == 0 or run.end_s(ended) <= time_s
    assert ended == count or run.end_s(ended + 1) > time_s


@given(st.integers(1, 4), st.integers(0, 30))
def test_an_end_is_the_sum_of_the_steps_before(first_s: int, count: int) -> None:
    assert run_of(first_s, 0.5, count).end_s(count) == sum(first_s + 0.5 * step for step in range(count))


@pytest.mark.parametrize(
    ("batch", "tokens_per_sequence", "computed"), [(1, 1, 1), (3, 1, 4), (9, 1, 16), (17, 1, 17), (3, 3, 6), (5, 3, 6)]
)
def test_a_batch_is_padded_to_the_next_captured_number_of_tokens(
    batch: int, tokens_per_sequence: int, computed: int
) -> None:
    """3 sequences of 3 tokens are 9, the graph has 16: as many as 6 sequences; 17 tokens run without a graph."""
    assert padded_batch(batch, tokens_per_sequence, (1, 2, 4, 8, 16)) == computed


def test_what_a_jump_displaced_is_not_found_afterwards() -> None:
    """12 blocks of 16: a leaves 4; b and c grow, in one jump, to 12 blocks, and end; then a's prefix is gone."""
    config = EngineConfig(
        slots=4, longest_tokens=192, pool=BlockPool(12), prefix_cache=PrefixCache.BLOCKS, prefix_block_tokens=16
    )
    engine = SimEngine(config, HandCost(), Random(1))
    kept = (("kept", 64),)
    engine.submit(0.0, SimCall(id="a", prompt_tokens=65, output_tokens=1, prefix=kept))
    run_out(engine)
    for name in "bc":
        engine.submit(engine.now_s, SimCall(id=name, prompt_tokens=10, output_tokens=84))
    run_out(engine)
    assert engine.gauges().preemptions == 0
    engine.submit(engine.now_s, SimCall(id="again", prompt_tokens=65, output_tokens=1, prefix=kept))
    assert [event.cached_tokens for event in run_out(engine) if isinstance(event, Started)] == [0]
