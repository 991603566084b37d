"""Drafting ahead: expected tokens, the best depth, and when it loses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.step_models import DENSE, MIXTURE, PLAIN, qwen_27b
from widelane.facts.devices.table import find_device
from widelane.plan.rates import rates_for
from widelane.plan.speculation import (
    ASSUMED_PROFILES,
    DEFAULT_PROFILE,
    acceptance_of_counts,
    acceptance_of_length,
    best_depth,
    draft_plan,
    draft_plans,
    expected_tokens,
    losing_batch,
)
from widelane.plan.step_time import step_parts

FALLING = (0.84, 0.60, 0.39, 0.27)
SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def test_expected_tokens_of_a_falling_series():
    # 1 + .84 + .84*.6 + .84*.6*.39 + .84*.6*.39*.27
    assert [expected_tokens(FALLING, depth) for depth in range(5)] == pytest.approx(
        [1, 1.84, 2.344, 2.54056, 2.5936312]
    )


def test_the_assumed_profiles_are_what_their_sources_say():
    assert ASSUMED_PROFILES[DEFAULT_PROFILE] == FALLING
    assert expected_tokens(ASSUMED_PROFILES["prose"], 2) == pytest.approx(1.5, abs=0.05)
    assert expected_tokens(ASSUMED_PROFILES["arithmetic"], 5) == pytest.approx(4.9, abs=0.05)


def test_positions_without_an_acceptance_yield_nothing():
    assert expected_tokens((0.5,), 3) == 1.5


def test_counters_of_kept_positions_become_shares_of_those_still_running():
    # Of 100 drafts 80 kept the first token, 40 the second, 10 the third.
    assert acceptance_of_counts([80, 40, 10], 100) == (0.8, 0.5, 0.25)
    assert acceptance_of_counts([80, 0, 0], 100) == (0.8, 0.0)


@pytest.mark.parametrize(("counts", "drafts"), [([5], 0), ([120], 100), ([80, 90], 100)])
def test_counters_that_cannot_be_are_refused(counts, drafts):
    with pytest.raises(ValueError, match=r"no drafts|was kept"):
        acceptance_of_counts(counts, drafts)


@given(st.integers(1, 8), st.floats(0, 1))
def test_an_observed_length_gives_the_acceptance_that_explains_it(depth, share):
    length = expected_tokens((share,) * depth, depth)
    assert expected_tokens(acceptance_of_length(length, depth), depth) == pytest.approx(length)


@pytest.mark.parametrize(("length", "depth"), [(0.9, 3), (4.1, 3), (1.0, 0)])
def test_a_length_that_cannot_be_is_refused(length, depth):
    with pytest.raises(ValueError, match="cannot come from"):
        acceptance_of_length(length, depth)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_an_acceptance_is_a_share(share):
    with pytest.raises(ValueError, match="no share"):
        expected_tokens((share,), 1)


def test_drafting_for_one_request_of_a_27b_pays_by_half_and_its_draft_costs_11_to_14_ms_a_token():
    model = qwen_27b(27.1e9, kv_bytes=1)
    rates = rates_for(find_device("gb10"), "vllm", model).rates
    plan = best_depth(model, rates, FALLING, batch=1, context=2048)
    assert plan.depth in (2, 3)
    assert 1.5 < plan.speed_up < 2.2
    drafting = step_parts(model, rates, batch=1, context=2048, draft_depth=1).weights_s
    assert 11e-3 < drafting - step_parts(model, rates, batch=1, context=2048).weights_s < 14e-3


def test_a_draft_that_is_never_kept_is_not_made():
    assert best_depth(DENSE, PLAIN, (0.0, 0.0), batch=1, context=0).depth == 0


def test_a_mixture_of_experts_loses_by_drafting_at_a_batch_where_a_dense_model_still_gains():
    # Drafted tokens visit further experts.
    acceptance = (0.5, 0.4, 0.3)
    model = replace(MIXTURE, draft_bytes=0.5e9)
    dense = replace(DENSE, draft_bytes=0.5e9)
    assert draft_plan(dense, PLAIN, acceptance, batch=4, context=1000, depth=3).speed_up > 1
    assert draft_plan(model, PLAIN, acceptance, batch=4, context=1000, depth=3).speed_up < 1
    losing = losing_batch(model, PLAIN, acceptance, context=1000, depth=3)
    assert losing is not None
    assert losing <= 4


def test_drafting_that_never_loses_says_so():
    free = replace(PLAIN, compute_s_per_gparam_token=0.0)
    assert losing_batch(DENSE, free, (0.9,), context=10, depth=1, widest=64) is None


@given(SHARES, st.integers(1, 64))
def test_the_best_depth_is_never_slower_than_any_other_or_than_none(acceptance, batch):
    best = best_depth(MIXTURE, PLAIN, acceptance, batch=batch, context=500)
    plans = draft_plans(MIXTURE, PLAIN, acceptance, batch=batch, context=500)
    assert best.output_tok_s == max(plan.output_tok_s for plan in plans)
    assert best.speed_up >= 1.0
    assert plans[0].depth == 0


@given(SHARES)
def test_more_depth_never_yields_fewer_tokens_and_never_more_than_one_each(acceptance):
    tokens = [expected_tokens(acceptance, depth) for depth in range(len(acceptance) + 1)]
    assert tokens == sorted(tokens)
    assert all(value <= depth + 1 for depth, value in enumerate(tokens))
