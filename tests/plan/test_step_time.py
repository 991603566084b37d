"""The length of a decode step: hand-worked values, what each term does, and which way everything must move."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.step_models import DENSE, HYBRID, MIXTURE, PLAIN
from widelane.plan.step_time import expert_share, step_parts, step_seconds

COSTS = st.sampled_from([DENSE, MIXTURE, HYBRID])
BATCHES = st.integers(1, 256)
CONTEXTS = st.floats(0, 262_144)


def test_one_request_of_a_dense_model_reads_the_weights_and_its_cache():
    # 2 ms + 20 GB / 0.8 TB/s = 25 ms + 1,000 tokens * 100 kB = 0.1 GB = 0.125 ms
    assert step_seconds(DENSE, PLAIN, batch=1, context=1000) == pytest.approx(27.125e-3)


def test_each_further_sequence_adds_its_cache_and_its_arithmetic_and_nothing_else():
    # 0.125 ms of cache and 10 * 1e-5 = 0.1 ms of arithmetic
    one = step_seconds(DENSE, PLAIN, batch=1, context=1000)
    assert step_seconds(DENSE, PLAIN, batch=11, context=1000) - one == pytest.approx(10 * 0.225e-3)


def test_a_recurrent_state_passes_the_bus_as_often_as_the_engine_needs():
    # Two sequences: 2 * 2 * 0.1 GB; with 18 passes for all but the first: (2 + 18) * 0.1 GB.
    assert step_parts(HYBRID, PLAIN, batch=2, context=0).state_s == pytest.approx(0.4e9 / 0.8e12)
    gathering = replace(PLAIN, state_passes=18.0, first_state_passes=2.0)
    assert step_parts(HYBRID, gathering, batch=1, context=0).state_s == pytest.approx(0.2e9 / 0.8e12)
    assert step_parts(HYBRID, gathering, batch=2, context=0).state_s == pytest.approx(2.0e9 / 0.8e12)


def test_one_token_visits_its_own_experts_and_many_visit_them_all():
    # 64 GB * 8/128 = 4 GB at half of 0.8 TB/s.
    assert step_parts(MIXTURE, PLAIN, batch=1, context=0).experts_s == pytest.approx(10e-3)
    assert step_parts(MIXTURE, PLAIN, batch=100_000, context=0).experts_s == pytest.approx(160e-3)


def test_sixteen_tokens_visit_as_many_experts_as_eight_that_choose_independently():
    # 16 ** 0.75 = 8, so 1 - (7/8)^8 with one expert in eight.
    assert expert_share(4, 32, 16) == pytest.approx(0.65639, abs=1e-5)
    assert expert_share(0, 0, 5) == 0.0


def test_up_to_a_limit_some_kernels_read_every_tokens_experts_apart():
    apart = replace(PLAIN, apart_tokens=31, joint_expert_efficiency=0.25)
    # 16 tokens * 4 GB = 64 GB at 0.4 TB/s; 32 tokens share, at a quarter of 0.8 TB/s.
    assert step_parts(MIXTURE, apart, batch=16, context=0).experts_s == pytest.approx(160e-3)
    joint = step_parts(MIXTURE, apart, batch=32, context=0).experts_s
    assert joint == pytest.approx(64e9 * expert_share(8, 128, 32) / 0.2e12)


def test_matrix_kernels_compute_a_whole_tile_and_are_used_where_that_is_shorter():
    tiled = replace(PLAIN, compute_s_per_gparam_token=4e-4, matrix_s_per_gparam_token=1e-4, tile_tokens=32)
    # Token by token 4 ms each beyond the first; a tile of 32 takes 32 ms.
    assert step_parts(DENSE, tiled, batch=4, context=0).compute_s == pytest.approx(12e-3)
    assert step_parts(DENSE, tiled, batch=12, context=0).compute_s == pytest.approx(32e-3)
    assert step_parts(DENSE, tiled, batch=33, context=0).compute_s == pytest.approx(64e-3)


def test_attention_takes_as_long_as_its_bytes_or_its_arithmetic_whichever_is_longer():
    model = replace(DENSE, attention_flops_per_token=1e6)
    # 1,000 tokens: 0.1 GB = 0.125 ms; 10^9 operations at 10^12/s = 1 ms.
    slow = replace(PLAIN, attention_flops_s=1e12)
    fast = replace(PLAIN, attention_flops_s=1e14)
    assert step_parts(model, slow, batch=1, context=1000).cache_s == pytest.approx(1e-3)
    assert step_parts(model, fast, batch=1, context=1000).cache_s == pytest.approx(0.125e-3)


def test_window_layers_read_no_more_than_their_window():
    model = replace(DENSE, kv_bytes_per_token=0, kv_bytes_per_token_window=1000, window=512)
    assert [model.kv_bytes(context) for context in (100, 512, 100_000)] == [100_000, 512_000, 512_000]


def test_drafting_reads_the_draft_head_once_a_drafted_token_and_checks_them_in_the_same_step():
    model = replace(DENSE, draft_bytes=0.8e9)
    plain = step_parts(model, PLAIN, batch=1, context=0)
    drafting = step_parts(model, PLAIN, batch=1, context=0, draft_depth=3)
    assert drafting.weights_s - plain.weights_s == pytest.approx(3e-3)
    assert drafting.compute_s == pytest.approx(3 * 0.1e-3)


def test_weights_that_must_be_dequantised_are_read_more_slowly():
    slow = replace(PLAIN, dense_efficiency=0.8)
    assert step_parts(DENSE, slow, batch=1, context=0).weights_s == pytest.approx(20e9 / 0.64e12)


def test_bits_of_a_weight_are_told_where_their_number_is_known():
    assert DENSE.dense_bits == 16
    assert replace(DENSE, dense_parameters=0).dense_bits is None


@given(COSTS, BATCHES, CONTEXTS, st.integers(0, 8))
def test_the_parts_add_up_and_none_is_negative(cost, batch, context, depth):
    parts = step_parts(cost, PLAIN, batch=batch, context=context, draft_depth=depth)
    assert min(parts) >= 0
    whole = step_seconds(cost, PLAIN, batch=batch, context=context, draft_depth=depth)
    assert sum(parts) == pytest.approx(whole)


@given(COSTS, BATCHES, CONTEXTS, st.floats(1.0, 10.0))
def test_more_bandwidth_is_never_slower_and_more_of_anything_never_faster(cost, batch, context, factor):
    usual = step_seconds(cost, PLAIN, batch=batch, context=context)
    faster = replace(PLAIN, bandwidth_bytes_s=PLAIN.bandwidth_bytes_s * factor)
    assert step_seconds(cost, faster, batch=batch, context=context) <= usual * (1 + 1e-12)
    for field in ("dense_bytes", "expert_bytes", "kv_bytes_per_token", "state_bytes", "active_parameters"):
        more = replace(cost, **{field: getattr(cost, field) * factor})
        assert step_seconds(more, PLAIN, batch=batch, context=context) >= usual * (1 - 1e-12)
    assert step_seconds(cost, PLAIN, batch=batch, context=context * factor) >= usual * (1 - 1e-12)
    assert step_seconds(cost, PLAIN, batch=batch + 1, context=context) > usual
    assert step_seconds(cost, PLAIN, batch=batch, context=context, draft_depth=1) > usual


@given(st.integers(1, 64), st.integers(0, 512), st.floats(1, 1e6), st.floats(1, 1e6))
def test_more_tokens_never_visit_fewer_experts_and_never_more_than_all(top_k, others, tokens, further):
    n_experts = top_k + others
    share = expert_share(top_k, n_experts, tokens)
    assert top_k / n_experts <= share + 1e-12
    assert share <= expert_share(top_k, n_experts, tokens + further) <= 1.0
