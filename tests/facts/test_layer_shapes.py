"""Which layers have a window, experts or a shape of their own: each way in which configs say it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.facts.small_llama import LLAMA, layers_of, read
from widelane.facts.model import LayerKind

_TWO_OF_THREE = [True, True, False] * 2

WINDOWS: list[tuple[str, dict[str, Any], list[bool]]] = [
    ("every layer, when nothing else is said", {"model_type": "mistral", "sliding_window": 8}, [True] * 6),
    ("null is none", {"model_type": "mistral", "sliding_window": None}, [False] * 6),
    ("every second of Gemma 2", {"model_type": "gemma2", "sliding_window": 8}, [True, False] * 3),
    ("a stated period", {"model_type": "gemma3", "sliding_window": 8, "sliding_window_pattern": 3}, _TWO_OF_THREE),
    ("letters", {"model_type": "exaone4", "sliding_window": 8, "sliding_window_pattern": "LLG"}, _TWO_OF_THREE),
    ("a switch that is off", {"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": False}, [False] * 6),
    ("a switch that is not stated", {"model_type": "qwen2", "sliding_window": 8}, [False] * 6),
    (
        "from a layer on",
        {"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": True, "max_window_layers": 4},
        [False] * 4 + [True] * 2,
    ),
    ("chunks", {"model_type": "llama4", "attention_chunk_size": 8}, [True, True, True, False, True, True]),
    ("flags", {"model_type": "mimo_v2_flash", "sliding_window": 8, "hybrid_layer_pattern": [0, 1, 1, 0, 1, 1]},
     [False, True, True, False, True, True]),
]  # fmt: skip


@pytest.mark.parametrize(("says", "keys", "windowed"), WINDOWS, ids=[row[0] for row in WINDOWS])
def test_which_layers_have_a_window(says: str, keys: dict[str, Any], windowed: list[bool]) -> None:
    facts = read(LLAMA | {"num_hidden_layers": 6} | keys)
    assert layers_of(facts, {LayerKind.SLIDING}) == sum(windowed)
    assert layers_of(facts, {LayerKind.FULL}) == 6 - sum(windowed)
    assert facts.window == (8 if any(windowed) else 0)


SPARSE: list[tuple[str, dict[str, Any], int]] = [
    ("all", {}, 6),
    ("after the first", {"first_k_dense_replace": 1}, 5),
    ("a frequency by layer", {"moe_layer_freq": [0, 0, 1, 1, 1, 1]}, 4),
    ("every second, but not the last", {"decoder_sparse_step": 2, "mlp_only_layers": [5]}, 2),
    ("a period and an offset", {"expert_layer_period": 3, "expert_layer_offset": 1}, 2),
    ("a range", {"moe_layer_start_index": 2, "moe_layer_end_index": 4, "moe_layer_interval": 1}, 3),
    ("a range to the last", {"moe_layer_start_index": 2, "moe_layer_end_index": -1}, 4),
    ("words", {"mlp_layer_types": ["dense"] * 2 + ["sparse"] * 4}, 4),
    ("a list in a text", {"moe_layers_enum": "3,4,5"}, 3),
    ("the first so many dense", {"num_dense_layers": 2}, 4),
]


@pytest.mark.parametrize(("says", "keys", "layers"), SPARSE, ids=[row[0] for row in SPARSE])
def test_which_layers_have_experts(says: str, keys: dict[str, Any], layers: int) -> None:
    experts = {"num_hidden_layers": 6, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    facts = read(LLAMA | {"model_type": "qwen3_moe"} | experts | keys)
    assert facts.experts is not None
    assert facts.experts.layers == layers
    assert facts.parameters.routed_experts == layers * 8 * 3 * 64 * 16


def test_searched_stacks_state_each_block() -> None:
    """Nemotron-NAS: one whole block, one without attention, one whose attention is a single matrix."""
    blocks = [
        {"attention": {"n_heads_in_group": 2, "no_op": False}, "ffn": {"ffn_mult": 6.0, "no_op": False}},
        {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 6.0}},
        {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}},
    ]
    facts = read(LLAMA | {"model_type": "nemotron-nas", "num_hidden_layers": 3, "block_configs": blocks})
    # 2 * 6 * 64 / 3 = 256 is a multiple of 256 already.
    assert facts.parameters.total - 2 * 6_400 == (2 * 64 * 16 * (4 + 2)) + 2 * 3 * 64 * 256 + 64 * 64
    assert layers_of(facts, {LayerKind.FULL}) == 1
    assert facts.n_layers == 3


def test_a_short_unit_of_layer_types_repeats() -> None:
    unit = ["sliding_attention", "full_attention"]
    facts = read(LLAMA | {"num_hidden_layers": 5, "sliding_window": 8, "layer_types": unit})
    assert layers_of(facts, {LayerKind.SLIDING}) == 3
    assert layers_of(facts, {LayerKind.FULL}) == 2


def test_a_window_as_long_as_the_context_is_none() -> None:
    """Phi-4-mini states a window of 262,144 for a context of 131,072."""
    facts = read(LLAMA | {"model_type": "phi3", "sliding_window": 262_144, "max_position_embeddings": 131_072})
    assert layers_of(facts, {LayerKind.FULL}) == 2
    assert facts.window == 0
