"""Reading a prompt: hand-worked values, and llama-bench at depths up to 32,768 tokens."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.model_facts import FULL, LATENT, SLIDING, model
from widelane.facts.devices.table import find_device
from widelane.facts.known_models import known_model
from widelane.figures import Origin
from widelane.plan.prefill import (
    PrefillRates,
    attention_flops,
    prefill_rates_for,
    prefill_seconds,
    prefill_seconds_per_token,
)

RATES = PrefillRates(linear_flops=20e12, attention_flops=10e12)


def test_a_token_at_the_start_costs_two_operations_a_parameter():
    assert prefill_seconds_per_token(model(), RATES, depth=0) == pytest.approx(2e9 / 20e12)


def test_attention_grows_with_depth_and_stops_at_the_window():
    # 2 * 10 layers * 32 heads * 256 = 163,840 operations a token looked back at; three times that in the window layers.
    facts = model(attention=(FULL, SLIDING))
    assert attention_flops(facts, 1000) == 163_840 * 1000 + 491_520 * 1000
    assert attention_flops(facts, 10_000) == 163_840 * 10_000 + 491_520 * 1024


def test_latent_attention_is_computed_on_expanded_heads_or_on_its_rows():
    facts = model(attention=(LATENT,))
    assert attention_flops(facts, 1) == 2 * 10 * 16 * 320
    assert attention_flops(facts, 1, on_latent_rows=True) == 2 * 10 * 16 * 1088
    assert prefill_rates_for(find_device("m2-ultra"), "llama.cpp", experts=True).rates.on_latent_rows
    assert not prefill_rates_for(find_device("h100-sxm"), "vllm", experts=True).rates.on_latent_rows


def test_a_prompt_of_8000_tokens_takes_the_sum_of_its_tokens():
    facts = model(attention=(FULL, SLIDING))
    by_token = sum(prefill_seconds_per_token(facts, RATES, depth=token + 0.5) for token in range(8000))
    assert prefill_seconds(facts, RATES, tokens=8000) == pytest.approx(by_token, rel=1e-6)


@given(st.floats(0, 1e5), st.floats(1, 1e5), st.floats(1, 1e5))
def test_reading_on_takes_what_is_left_of_reading_it_all(depth, first, second):
    facts = model(attention=(FULL, SLIDING))
    in_one = prefill_seconds(facts, RATES, tokens=first + second, depth=depth)
    in_two = prefill_seconds(facts, RATES, tokens=first, depth=depth)
    in_two += prefill_seconds(facts, RATES, tokens=second, depth=depth + first)
    assert in_two == pytest.approx(in_one, rel=1e-6)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_deeper_token_is_never_faster(depth, more):
    facts = model(attention=(FULL, SLIDING))
    assert prefill_seconds_per_token(facts, RATES, depth=depth + more) >= prefill_seconds_per_token(
        facts, RATES, depth=depth
    )


def prefill_rows(data_dir, hardware, model_name):
    for path in sorted((data_dir / "measurements").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            like = (row["hardware"], row["model"], row["measurement"])
            if like == (hardware, model_name, "llama_bench_prefill"):
                yield row


def test_the_published_fits_reproduce_llama_bench_at_every_depth(data_dir):
    """Within the error that each fit states, and a percent for its rounded figures."""
    fits = json.loads((data_dir / "measurements" / "prefill_fit.json").read_text(encoding="utf-8"))["rows"]
    seen = 0
    for fit in fits:
        facts = known_model(fit["model"])
        if facts is None:
            continue
        rates = PrefillRates(fit["linear_tflops"] * 1e12, fit["attention_tflops"] * 1e12, on_latent_rows=True)
        for row in prefill_rows(data_dir, fit["hardware"], fit["model"]):
            middle = row["prefill_depth"] + row["prefill_chunk"] / 2
            predicted = 1.0 / prefill_seconds_per_token(facts, rates, depth=middle)
            assert predicted == pytest.approx(row["prefill_tok_s"], rel=fit["max_error"] + 0.01), row["id"]
            seen += 1
    assert seen >= len(fits)


def test_the_shipped_rates_predict_nine_in_ten_llama_bench_rows_within_their_interval(data_dir):
    """The interval is of time; rows of models that are not known are passed over."""
    within = []
    for hardware in ("gb10", "m2-ultra"):
        device = find_device(hardware)
        fits = json.loads((data_dir / "measurements" / "prefill_fit.json").read_text(encoding="utf-8"))["rows"]
        for name in {fit["model"] for fit in fits}:
            facts = known_model(name)
            if facts is None:
                continue
            expected = prefill_rates_for(device, "llama.cpp", experts=facts.experts is not None)
            for row in prefill_rows(data_dir, hardware, name):
                middle = row["prefill_depth"] + row["prefill_chunk"] / 2
                predicted_s = prefill_seconds_per_token(facts, expected.rates, depth=middle)
                within.append(expected.low <= 1.0 / row["prefill_tok_s"] / predicted_s <= expected.high)
    assert sum(within) >= 0.9 * len(within) > 0


def test_a_device_that_nobody_measured_is_assumed_from_its_peak_with_a_wide_interval():
    expected = prefill_rates_for(find_device("rtx-4090"), "llama.cpp", experts=False)
    assert expected.origin is Origin.ASSUMED
    # A GB10 reaches 29 % of its 125 TFLOPS in llama.cpp; the RTX 4090 states 165.2.
    assert expected.rates.linear_flops == pytest.approx(47.9e12, rel=0.01)
    assert expected.low <= 0.6
    assert expected.high >= 2.0


def test_a_gb10_reads_prompts_at_53_to_64_tflops_under_vllm_and_less_under_llama_cpp():
    vllm = prefill_rates_for(find_device("gb10"), "vllm", experts=False)
    ggml = prefill_rates_for(find_device("gb10"), "llama.cpp", experts=False)
    assert 53e12 < vllm.rates.linear_flops < 64e12
    assert ggml.rates.linear_flops < vllm.rates.linear_flops
    assert ggml.origin is Origin.PREDICTED


def test_every_device_reads_a_mixture_of_experts_no_faster_for_its_active_parameters():
    for name in ("gb10", "m2-ultra", "apple-m1", "h100-sxm", "strix-halo", "cpu-ddr5-5600-2ch", "p40"):
        for engine in ("vllm", "llama.cpp", "mlx-lm"):
            dense = prefill_rates_for(find_device(name), engine, experts=False).rates
            mixture = prefill_rates_for(find_device(name), engine, experts=True).rates
            assert 0 < mixture.linear_flops < dense.linear_flops
            assert mixture.attention_flops > 0
