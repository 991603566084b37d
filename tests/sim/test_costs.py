"""Step times from arithmetic, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.model_facts import FULL, SLIDING, model
from tests.plan.step_models import DENSE, HYBRID, MIXTURE, PLAIN
from widelane.plan.prefill import PrefillRates
from widelane.plan.step_time import step_seconds
from widelane.sim.cost_model import PromptChunk
from widelane.sim.costs import PlanCosts, calibrated

PREFILL = PrefillRates(linear_flops=40e12, attention_flops=50e12)
DENSE_COSTS = PlanCosts(step=DENSE, rates=PLAIN, prefill=PREFILL)
WINDOWED = replace(DENSE, kv_bytes_per_token_window=300_000, window=1024)
READING_S = 20e9 / 0.8e12  # 25 ms: the weights of DENSE at 0.8 TB/s


def test_a_lone_step_reads_the_weights_and_its_context() -> None:
    """25 ms of weights, 2 ms of overhead, 4,000 tokens of 100 kB: 0.5 ms."""
    line = DENSE_COSTS.decode_line(1, 4000, 0)
    assert line.base_s == pytest.approx(0.027)
    assert line.seconds(4000) == pytest.approx(0.0275)
    assert line.until_tokens == math.inf


@pytest.mark.parametrize("step", [DENSE, MIXTURE, HYBRID, WINDOWED])
@pytest.mark.parametrize(("batch", "each"), [(1, 100), (4, 1024), (64, 5000)])
@pytest.mark.parametrize("depth", [0, 3])
def test_the_line_goes_through_the_step_time_of_the_plan(step, batch, each, depth) -> None:
    costs = PlanCosts(step=step, rates=PLAIN, prefill=PREFILL)
    expected = step_seconds(step, PLAIN, batch=batch, context=each, draft_depth=depth)
    assert costs.decode_line(batch, batch * each, depth).seconds(batch * each) == pytest.approx(expected)


def test_a_window_fills_and_then_costs_no_more() -> None:
    """Two sequences: up to 1,024 tokens each, both kinds of layers read what they hold; then only the lasting ones."""
    costs = PlanCosts(step=WINDOWED, rates=PLAIN, prefill=PREFILL)
    filling, full = costs.decode_line(2, 1000, 0), costs.decode_line(2, 2048, 0)
    assert filling.until_tokens == 2048
    assert filling.per_token_s == pytest.approx(4 * full.per_token_s)
    assert full.until_tokens == math.inf
    assert filling.seconds(2048) == pytest.approx(full.seconds(2048))


def test_where_attention_is_limited_by_arithmetic_the_longer_line_holds_until_they_cross() -> None:
    """Lasting layers are slow by arithmetic, window layers by bytes: the window dominates first, then the others."""
    step = replace(
        DENSE,
        kv_bytes_per_token=0,
        kv_bytes_per_token_window=800_000,
        window=1000,
        attention_flops_per_token=1e6,
    )
    costs = PlanCosts(step=step, rates=replace(PLAIN, attention_flops_s=4e12), prefill=PREFILL)
    # A full window: 1,000 * 800 kB / 0.8 TB/s = 1 ms; arithmetic: 0.25 us a token, as long at 4,000 tokens.
    windowed, lasting = costs.decode_line(1, 1500, 0), costs.decode_line(1, 5000, 0)
    assert windowed.per_token_s == 0.0
    assert windowed.until_tokens == pytest.approx(4000)
    assert lasting.per_token_s == pytest.approx(0.25e-6)
    assert windowed.seconds(4000) == pytest.approx(lasting.seconds(4000))


@given(
    batch=st.integers(1, 256),
    each=st.floats(0, 100_000),
    further=st.floats(0, 1e7),
    window=st.sampled_from([0, 512, 4096]),
    flops=st.sampled_from([None, 1e12, 1e14]),
)
def test_a_line_is_exact_up_to_where_it_says_it_holds(batch, each, further, window, flops) -> None:
    step = replace(
        DENSE,
        window=window,
        kv_bytes_per_token_window=200_000 if window else 0,
        attention_flops_per_token=3e5,
        attention_flops_per_token_window=1e6 if window else 0,
    )
    rates = replace(PLAIN, attention_flops_s=flops)
    context = batch * each
    line = PlanCosts(step=step, rates=rates, prefill=PREFILL).decode_line(batch, context, 0)
    assert line.until_tokens > context
    end = min(context + further, line.until_tokens)
    for total in (context, end):
        exact = step_seconds(step, rates, batch=batch, context=total / batch)
        assert line.seconds(total) == pytest.approx(exact, rel=1e-9)


def test_a_long_prompt_hides_the_reading_of_the_weights() -> None:
    """2,000 tokens * 2 * 10^10 operations at 40 TFLOPS are 1 s; 25 ms of reading add 0.3 ms, the overhead 2 ms."""
    assert DENSE_COSTS.prompt_s(2000) == pytest.approx(math.hypot(1.0, READING_S) + 0.002)


def test_a_short_prompt_takes_no_less_than_the_reading_of_the_weights() -> None:
    """10 tokens: 5 ms of arithmetic behind 25 ms of reading."""
    assert DENSE_COSTS.prompt_s(10) == pytest.approx(math.hypot(0.005, READING_S) + 0.002)


def test_decoding_beside_a_prompt_reads_the_weights_once() -> None:
    """8 sequences decode while 2,000 tokens are read: 8 tokens more to compute and their caches, not a step more."""
    together = DENSE_COSTS.mixed_s([PromptChunk(2000, 0)], 8, 8 * 1000, 0)
    apart = DENSE_COSTS.prompt_s(2000) + DENSE_COSTS.decode_line(8, 8000, 0).seconds(8000)
    assert together == pytest.approx(math.hypot(2008 * 0.0005, READING_S) + 0.001 + 0.002)
    assert together < apart


def test_a_prompt_visits_all_experts_and_so_reads_them_all() -> None:
    """400 of 64 GB experts at half efficiency: 160 ms, against 1/16 of them for one token."""
    costs = PlanCosts(step=MIXTURE, rates=PLAIN, prefill=PREFILL)
    reading_s = (4e9 + 64e9 / 0.5) / 0.8e12
    assert costs.prompt_s(2000) == pytest.approx(math.hypot(2000 * 8e9 / 40e12, reading_s) + 0.002, rel=1e-3)


def test_the_attention_of_a_prompt_grows_with_what_is_before_it() -> None:
    """10 layers of 32 heads of 128: 2 * 10 * 32 * 256 operations a token pair, 1,000 tokens after 30,000."""
    costs = replace(DENSE_COSTS, facts=model(attention=(FULL,)))
    deep = costs.mixed_s([PromptChunk(1000, 30_000)], 0, 0.0, 0)
    shallow = costs.mixed_s([PromptChunk(1000, 0)], 0, 0.0, 0)
    assert deep - shallow == pytest.approx(2 * 10 * 32 * 256 * 1000 * 30_000 / 50e12)


def test_two_prompts_in_one_step_share_its_reading_and_overhead() -> None:
    costs = replace(DENSE_COSTS, facts=model(attention=(SLIDING,)))
    both = costs.mixed_s([PromptChunk(500, 0), PromptChunk(500, 0)], 0, 0.0, 0)
    assert both < 2 * costs.prompt_s(500)


@pytest.mark.parametrize("step", [DENSE, MIXTURE])
def test_calibrated_costs_give_back_what_they_were_fed(step) -> None:
    costs = PlanCosts(step=step, rates=PLAIN, prefill=PREFILL, facts=model())
    fed = calibrated(costs, step_s=0.1, context_tokens=4224, prefill_tok_s=2000.0, prompt_tokens=4096)
    assert fed.decode_line(1, 4224, 0).seconds(4224) == pytest.approx(0.1)
    assert fed.prompt_s(4096) == pytest.approx(4096 / 2000)


def test_a_prefill_that_reading_alone_explains_still_grows_with_the_prompt() -> None:
    """A measured prefill faster than the weights can be read: a quarter of it is taken for arithmetic."""
    fed = calibrated(DENSE_COSTS, step_s=0.5, context_tokens=0, prefill_tok_s=1e6, prompt_tokens=1000)
    assert fed.prompt_s(200_000_000) - fed.prompt_s(100_000_000) == pytest.approx(25.0, rel=0.01)
