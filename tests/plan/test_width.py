"""The batch at which a step takes twice as long: the published pattern, and that it is what it says."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.step_models import DENSE, HYBRID, MIXTURE, PLAIN, QWEN_35B_A3B, qwen_27b
from widelane.facts.devices.table import find_device
from widelane.plan.rates import rates_for
from widelane.plan.step_time import step_seconds
from widelane.plan.width import WIDEST, doubling_batch, width_of


def on_gb10(cost, *, context=2048):
    return width_of(cost, rates_for(find_device("gb10"), "vllm", cost).rates, context=context)


@pytest.mark.parametrize(("dense_bytes", "published"), [(51.25e9, 119), (27.1e9, 64), (16.5e9, 46)])
def test_a_dense_27b_on_a_gb10_takes_twice_as_long_at_119_64_and_46_in_bf16_fp8_and_nvfp4(dense_bytes, published):
    assert on_gb10(qwen_27b(dense_bytes, kv_bytes=1)).doubling_batch == pytest.approx(published, rel=0.25)


def test_a_mixture_of_experts_takes_twice_as_long_at_a_handful():
    width = on_gb10(QWEN_35B_A3B)
    assert 4 <= width.doubling_batch <= 8
    assert width.sentence.startswith("A mixture of experts")
    assert "experts" in width.sentence.split(";")[1]


def test_the_gain_at_the_doubling_batch_is_half_of_it():
    # A step twice as long and B tokens: B / 2 times the rate of one, a little less as B is a whole number.
    width = on_gb10(qwen_27b(27.1e9, kv_bytes=1))
    assert width.gain == pytest.approx(width.doubling_batch / 2, rel=0.03)
    assert width.sentence.startswith("A dense model")


def test_what_grows_is_named():
    # 32k tokens * 100 kB = 3.3 GB a sequence against 20 GB of weights; or a state of 20 * 0.1 GB.
    assert "KV cache" in width_of(DENSE, PLAIN, context=32_768).sentence
    passing = replace(PLAIN, state_passes=20.0)
    assert "recurrent state" in width_of(HYBRID, passing, context=10).sentence


def test_a_model_whose_sequences_cost_nothing_never_doubles_and_says_so():
    free = replace(PLAIN, compute_s_per_gparam_token=0.0)
    width = width_of(replace(DENSE, kv_bytes_per_token=0), free, context=1000)
    assert width.doubling_batch is None
    assert width.gain == pytest.approx(WIDEST)
    assert str(WIDEST) in width.sentence


@given(st.sampled_from([DENSE, MIXTURE, HYBRID]), st.floats(1, 131_072))
def test_one_sequence_fewer_stays_below_twice(cost, context):
    batch = doubling_batch(cost, PLAIN, context=context)
    alone = step_seconds(cost, PLAIN, batch=1, context=context)
    assert batch is not None
    assert step_seconds(cost, PLAIN, batch=batch, context=context) >= 2 * alone
    assert step_seconds(cost, PLAIN, batch=batch - 1, context=context) < 2 * alone
