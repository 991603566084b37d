"""A model's facts become the cost of its step."""

from dataclasses import replace

import pytest

from tests.plan.model_facts import DELTA, EIGHT_OF_SIXTY_FOUR, FULL, LATENT, SCAN, SLIDING, model
from widelane.facts.known_models import known_model, known_names
from widelane.plan.step_cost import cost_of


def test_a_dense_model_reads_its_weights_and_a_cache_of_both_types():
    cost = cost_of(model(), key_bytes_per_element=1.0, value_bytes_per_element=0.5)
    assert (cost.dense_bytes, cost.expert_bytes, cost.n_experts) == (1e9, 0, 0)
    # 10 layers * 4 heads * (128 * 1 + 128 * 0.5)
    assert cost.kv_bytes_per_token == 7680
    # 2 * 10 layers * 32 query heads * 256
    assert cost.attention_flops_per_token == 163_840
    assert (cost.kv_bytes_per_token_window, cost.window, cost.state_bytes) == (0, 0, 0)


def test_window_layers_count_apart():
    cost = cost_of(model(attention=(FULL, SLIDING)))
    assert (cost.kv_bytes_per_token, cost.kv_bytes_per_token_window, cost.window) == (20_480, 61_440, 1024)
    assert cost.attention_flops(5000) == 163_840 * 5000 + 491_520 * 1024


def test_latent_attention_keeps_one_row_a_token_and_uses_it_for_keys_and_values():
    cost = cost_of(model(attention=(LATENT,)))
    assert cost.kv_bytes_per_token == 10 * 576 * 2
    # 576 elements of a row as key, the 512 without the rotary part as value.
    assert cost.attention_flops_per_token == 2 * 10 * 16 * 1088


def test_layers_that_share_a_cache_add_no_bytes_but_still_compute():
    cost = cost_of(model(attention=(replace(FULL, sharing=5),)))
    assert cost.kv_bytes_per_token == 10_240
    assert cost.attention_flops_per_token == 163_840


def test_a_recurrent_state_counts_in_its_own_types_and_tells_a_scan_from_a_delta_rule():
    # 3 layers * (200,000 * 4 + 3 columns * 1,000 * 2)
    cost = cost_of(model(recurrent=(DELTA,)), conv_bytes_per_element=2.0)
    assert cost.state_bytes == 2_418_000
    assert not cost.scan_state
    assert cost_of(model(recurrent=(SCAN,))).scan_state


def test_routed_experts_count_apart_from_the_weights_that_every_step_reads():
    cost = cost_of(model(experts=EIGHT_OF_SIXTY_FOUR))
    assert (cost.dense_bytes, cost.expert_bytes, cost.n_experts, cost.top_k) == (4e8, 6e8, 64, 8)
    assert cost.dense_parameters == 4e8
    assert cost.dense_bits == 8


def test_a_drafted_token_reads_the_draft_head_and_the_output_layer():
    assert cost_of(model()).draft_bytes == 120_000_000


@pytest.mark.parametrize("name", known_names())
def test_every_known_model_has_a_cost_whose_parts_are_within_the_model(name):
    facts = known_model(name)
    assert facts is not None
    cost = cost_of(facts)
    assert 0 < cost.dense_bytes + cost.expert_bytes <= facts.weights.total_bytes
    assert 0 < cost.dense_parameters <= facts.parameters.active
    assert 2 <= cost.dense_bits <= 32
    assert cost.kv_bytes(1000) > 0 or cost.state_bytes > 0
