"""Lanes from what calls really take up: the field report's case, a played-out pool, and what must always hold."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widelane.errors import UsageError
from widelane.plan.concurrency import plan_lanes
from widelane.plan.footprint import Footprint, PastCall, parse_footprint

POOL_BLOCKS = 244
"""12.7 GiB: a block of 800 tokens in 17 attention layers of Qwen3.6-27B (4096 bytes each) is 55.7 MB."""
CAP = 60_000


def blocks(tokens):
    """Qwen3.6-27B in vLLM, bf16 KV, f32 state, drafts of 2, prefix cache `align`: 3 recurrent groups of 4 blocks."""
    return math.ceil(tokens / 800) + 12


def field_report(text="12000-18000"):
    return plan_lanes(parse_footprint(text), need=blocks, pool=POOL_BLOCKS, max_tokens=CAP)


def test_the_field_reports_pool_holds_seven_to_nine_chains_and_not_three():
    plan = field_report()
    assert plan.lanes == plan.in_step == 7
    assert plan.out_of_step == 9
    assert plan.if_worst_case == 2  # 87 blocks each
    assert plan.chance < 0.01
    assert plan.mean_tokens == pytest.approx(15_000, rel=0.01)
    assert plan.slower == 3.5
    assert plan.slower_assumed


def test_a_single_typical_number_gives_the_same_and_says_what_it_assumed():
    plan = field_report("15000")
    assert plan.lanes == 7
    assert any("assumed: 3,000 tokens" in note for note in plan.notes)


def test_chains_all_of_one_length_fill_the_pool_exactly():
    assert field_report("12000±0").in_step == 9  # 27 blocks each: 243
    assert field_report("18000±0").in_step == 6  # 35 blocks each: 210


def test_the_same_case_from_a_file_of_past_calls():
    chains = [PastCall(prompt_tokens=300, total_tokens=total) for total in range(12_000, 18_001, 100)]
    plan = plan_lanes(chains, need=blocks, pool=POOL_BLOCKS, max_tokens=CAP)
    assert 7 <= plan.lanes <= plan.out_of_step <= 9
    assert plan.notes == ()


def test_what_the_worst_case_costs_follows_from_the_rates_where_they_are_known():
    rates = {2: 20.0, 7: 60.0}
    plan = plan_lanes(
        parse_footprint("12k-18k"), need=blocks, pool=POOL_BLOCKS, max_tokens=CAP, total_tok_s=rates.__getitem__
    )
    assert plan.slower == 3.0
    assert not plan.slower_assumed


def test_played_out_the_lanes_in_step_keep_their_word_and_one_more_does_not():
    rng = random.Random(1)
    sigma = math.sqrt(math.log(1.04))  # a spread of a fifth of the mean
    plan = field_report()

    def overflows(lanes):
        rounds = 20_000
        ends = lambda: min(CAP, 15_000 * math.exp(rng.gauss(-sigma * sigma / 2, sigma)))  # noqa: E731
        return sum(sum(blocks(ends()) for _ in range(lanes)) > POOL_BLOCKS for _ in range(rounds)) / rounds

    assert overflows(plan.in_step) == pytest.approx(plan.chance, abs=0.002)
    assert overflows(plan.in_step + 1) > 0.3


@pytest.mark.parametrize("spread", [0.2, 1.2])
def test_played_out_over_time_the_lanes_out_of_step_keep_their_word_and_one_more_does_not(spread):
    """Lanes take one call after another and grow a token a step; the pool is looked at every 100 tokens."""
    sigma = math.sqrt(math.log1p(spread**2))

    def overflows(lanes, steps=60_000):
        rng = random.Random(2)

        def call():
            return min(CAP, 10_000 * math.exp(rng.gauss(-sigma * sigma / 2, sigma)))

        ends = [call() for _ in range(lanes)]
        held = [rng.random() * end for end in ends]
        over = 0
        for _ in range(steps):
            for lane in range(lanes):
                held[lane] += 100
                if held[lane] > ends[lane]:
                    held[lane], ends[lane] = 50.0, call()
            over += sum(math.ceil(tokens / 800) + 1 for tokens in held) > 100
        return over / steps

    plan = plan_lanes(
        Footprint(mean_tokens=10_000, spread_tokens=10_000 * spread),
        need=lambda tokens: math.ceil(tokens / 800) + 1,
        pool=100,
        max_tokens=CAP,
    )
    assert overflows(plan.out_of_step) < 0.01
    assert overflows(plan.out_of_step + 1) > 0.008  # above the risk, but for the noise of one run


def test_a_few_very_long_calls_set_the_lanes_and_the_plan_says_so():
    chats = [PastCall(prompt_tokens=0, total_tokens=500)] * 999 + [PastCall(prompt_tokens=0, total_tokens=50_000)]
    plan = plan_lanes(chats, need=float, pool=400_000.0)
    assert plan.lanes == plan.out_of_step < plan.in_step
    assert any("very long calls" in note for note in plan.notes)
    assert plan.if_worst_case is None
    assert plan.slower is None


def test_a_long_prompt_is_there_from_the_first_step():
    growing = [PastCall(prompt_tokens=0, total_tokens=10_000)]
    reading = [PastCall(prompt_tokens=9_000, total_tokens=10_000)]
    assert plan_lanes(growing, need=float, pool=100_000.0).out_of_step > 12
    assert plan_lanes(reading, need=float, pool=100_000.0).out_of_step == 10


def test_few_calls_unknown_prompts_and_calls_beyond_the_fuse_are_told():
    calls = [PastCall(prompt_tokens=None, total_tokens=total) for total in (900, 1_000, 5_000)]
    notes = " ".join(plan_lanes(calls, need=float, pool=10_000.0, max_tokens=2_000).notes)
    assert "Only 3 past calls" in notes
    assert "do not tell their prompt" in notes
    assert "longer than 2,000 tokens" in notes


def test_not_even_one_call_that_does_not_fit():
    plan = plan_lanes(parse_footprint("15000"), need=blocks, pool=20, max_tokens=CAP)
    assert (plan.lanes, plan.if_worst_case, plan.slower) == (0, 0, None)


def test_the_servers_places_bound_the_answer():
    plan = plan_lanes(parse_footprint("100±10"), need=float, pool=1e9, max_tokens=200, most=256)
    assert (plan.lanes, plan.if_worst_case) == (256, 256)


def test_a_model_without_a_cache_is_bounded_by_the_places_alone():
    assert plan_lanes(parse_footprint("1000"), need=lambda tokens: 0.0, pool=1.0, max_tokens=10, most=64).lanes == 64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"calls": []}, "No past calls"),
        ({"pool": -1}, "pool of -1"),
        ({"pool": math.nan}, "pool of nan"),
        ({"pool": math.inf}, "pool of inf"),
        ({"max_tokens": 0}, "at most 0 tokens"),
        ({"risk": 0.0}, "risk of 0"),
        ({"risk": 1.0}, "risk of 1"),
    ],
)
def test_what_cannot_be_is_one_clear_error(change, words):
    arguments = {"calls": parse_footprint("15000"), "need": blocks, "pool": 244.0, "max_tokens": CAP, **change}
    calls = arguments.pop("calls")
    with pytest.raises(UsageError, match=words):
        plan_lanes(calls, **arguments)


footprints = st.builds(
    Footprint, mean_tokens=st.floats(10, 50_000), spread_tokens=st.floats(0, 20_000), prompt_tokens=st.floats(0, 5_000)
)


@settings(max_examples=40, deadline=None)
@given(footprints, st.integers(0, 3_000), st.integers(0, 3_000), st.floats(0.001, 0.2))
def test_more_pool_or_more_risk_never_gives_fewer_lanes_and_the_worst_case_never_more(footprint, pool, more, risk):
    def planned(size, chance):
        return plan_lanes(footprint, need=blocks, pool=size, max_tokens=CAP, risk=chance, most=128)

    plan = planned(pool, risk)
    assert plan.lanes == min(plan.in_step, plan.out_of_step)
    assert plan.if_worst_case <= plan.lanes or plan.lanes == 0 == pool // blocks(CAP)
    assert plan.chance < risk
    wider = planned(pool + more, min(0.5, 2 * risk))
    assert wider.in_step >= plan.in_step
    assert wider.out_of_step >= plan.out_of_step
