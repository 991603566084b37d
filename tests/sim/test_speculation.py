"""Drafted tokens: how many a step brings, what is counted, and that others do not change what a call draws."""

from __future__ import annotations

from random import Random

import pytest

from tests.sim.hand_cost import HandCost, run_out
from widelane.sim.call import SimCall
from widelane.sim.config import BlockPool, EngineConfig
from widelane.sim.engine import SimEngine
from widelane.sim.events import Finished


def run_calls(
    outputs: list[int], acceptance: tuple[float, ...], seed: int = 1
) -> tuple[SimEngine, dict[str, Finished]]:
    config = EngineConfig(
        slots=8,
        longest_tokens=100_000,
        pool=BlockPool(100_000),
        draft_depth=len(acceptance),
        acceptance=acceptance,
    )
    engine = SimEngine(config, HandCost(prompt_token_s=0.0), Random(seed))
    for number, output in enumerate(outputs):
        engine.submit(0.0, SimCall(id=str(number), prompt_tokens=10, output_tokens=output))
    events = run_out(engine)
    return engine, {event.call_id: event for event in events if isinstance(event, Finished)}


def test_every_draft_kept_brings_depth_and_one_tokens_a_step() -> None:
    engine, finished = run_calls([8], (1.0, 1.0))
    # One token from the prompt, 3 + 3, and the last step is cut to what is left.
    assert [tuple(chunk) for chunk in finished["0"].arrivals] == [(0.0, 1), (1.0, 3), (2.0, 3), (3.0, 1)]
    assert engine.gauges().output_tokens == 8
    assert engine.gauges().drafted_tokens == 6
    assert engine.gauges().accepted_by_position == (2, 2)


def test_no_draft_kept_brings_one_token_a_step() -> None:
    engine, finished = run_calls([5], (0.0, 0.9))
    assert [chunk.tokens for chunk in finished["0"].arrivals] == [1, 1, 1, 1, 1]
    assert (engine.gauges().drafted_tokens, engine.gauges().accepted_tokens) == (8, 0)


def test_tokens_a_step_are_those_of_the_acceptance_by_position() -> None:
    """E = 1 + .84 + .84 * .60 + .84 * .60 * .39 = 2.54 tokens a step."""
    engine, _ = run_calls([20_000], (0.84, 0.60, 0.39))
    gauges = engine.gauges()
    assert (gauges.output_tokens - 1) / gauges.decode_steps == pytest.approx(2.54, rel=0.02)
    kept = [count / gauges.decode_steps for count in gauges.accepted_by_position]
    assert kept == pytest.approx([0.84, 0.504, 0.197], rel=0.05)


def test_what_a_call_draws_does_not_depend_on_who_runs_beside_it() -> None:
    _, alone = run_calls([200], (0.7, 0.5))
    _, beside = run_calls([200, 90, 300], (0.7, 0.5))
    assert [chunk.tokens for chunk in alone["0"].arrivals] == [chunk.tokens for chunk in beside["0"].arrivals]
    assert [chunk.tokens for chunk in beside["1"].arrivals] != [chunk.tokens for chunk in beside["2"].arrivals][:90]


def test_another_seed_draws_otherwise() -> None:
    _, one = run_calls([200], (0.7, 0.5), seed=1)
    _, two = run_calls([200], (0.7, 0.5), seed=2)
    assert [chunk.tokens for chunk in one["0"].arrivals] != [chunk.tokens for chunk in two["0"].arrivals]
