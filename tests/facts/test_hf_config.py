"""A model's shape from its config.json: every model of the data, the forms of other families, and damaged configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data_path import DATA
from tests.facts.hub_configs import PUBLISHED
from tests.facts.small_llama import LLAMA, layers_of, read, tensors
from widelane.errors import UnreadableModel, UsageError
from widelane.facts.files.tensor_types import TensorInfo
from widelane.facts.model import LayerKind

_FILES = sorted((DATA / "models").glob("*.json")) if DATA else []
_KINDS = {
    "full": {LayerKind.FULL, LayerKind.MLA},
    "sliding": {LayerKind.SLIDING},
    "linear": {LayerKind.DELTA, LayerKind.LINEAR},
    "mamba": {LayerKind.MAMBA, LayerKind.MAMBA2},
}


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_the_published_figures_of_every_model_of_the_data_are_met_exactly(path: Path) -> None:
    config = json.loads(path.read_bytes())
    derived = config.pop("_derived")
    facts = read(config)
    assert {
        "params_total_text": facts.parameters.total,
        "params_active_per_token": facts.parameters.active,
        "params_routed_experts": facts.parameters.routed_experts,
        "kv_elements_per_token_full": facts.kv_elements_per_token,
        "kv_elements_per_token_sliding": facts.kv_elements_per_token_window,
        "sliding_window": facts.window,
        "recurrent_state_elements_per_sequence": facts.recurrent_state_elements,
        "conv_state_elements_per_sequence": facts.conv_state_elements,
    } == {key: value for key, value in derived.items() if key != "layers_by_type"}
    stated = derived["layers_by_type"]
    assert {word: layers_of(facts, kinds) for word, kinds in _KINDS.items()} == {
        word: stated.get(word, 0) for word in _KINDS
    }
    if "moe" in stated:
        assert facts.experts is not None
        assert facts.experts.layers == stated["moe"]
    assert facts.n_layers == sum(stated.values())
    assert not [sentence for sentence in facts.assumed if "not known" in sentence or "Not understood" in sentence]


def test_the_data_is_there_or_missing_loudly(data_dir: Path) -> None:
    assert list((data_dir / "models").glob("*.json"))


def test_a_small_llama_counted_by_hand() -> None:
    facts = read(LLAMA)
    # Attention: q and o 64 x 64, k and v 64 x 32. MLP: three of 64 x 128. Two tables of 100 x 64.
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128
    assert layer == 36_864
    assert facts.parameters.total == 2 * 36_864 + 2 * 6_400
    assert facts.parameters.active == 2 * 36_864 + 6_400
    assert facts.kv_elements_per_token == 2 * 2 * (16 + 16)
    assert facts.weights.read_bytes == 2 * (2 * 36_864 + 6_400)
    assert facts.weights.total_bytes == 2 * facts.parameters.total
    assert facts.assumed == ()


@pytest.mark.parametrize("name", PUBLISHED)
def test_configs_in_the_form_of_the_hub_give_the_published_totals(name: str) -> None:
    config, total, active = PUBLISHED[name]
    facts = read(config)
    assert facts.parameters.total / 1e9 == pytest.approx(total, rel=2e-3)
    assert facts.parameters.active / 1e9 == pytest.approx(active, rel=5e-3)
    assert not [sentence for sentence in facts.assumed if "not known" in sentence or "Not understood" in sentence]


def test_a_gemma_config_that_omits_the_librarys_defaults() -> None:
    """google/gemma-3-4b-it states neither heads nor vocabulary in its text part; 3.88e9 parameters are published."""
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    tower = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27}
    facts = read({"model_type": "gemma3", "dtype": "bfloat16", "text_config": text, "vision_config": tower})
    assert facts.parameters.total == 3_879_895_040
    assert (facts.kv_elements_per_token, facts.kv_elements_per_token_window) == (10_240, 59_392)
    assert facts.architecture == "gemma3"
    # SigLIP-So400m's 27 layers: four matrices of 1152 x 1152 and two of 1152 x 4304 each, in bf16.
    assert facts.weights.other_bytes == 2 * 27 * (4 * 1152 * 1152 + 2 * 1152 * 4304)


def test_a_hybrid_with_mamba_beside_attention_counts_both() -> None:
    facts = read(
        LLAMA
        | {
            "model_type": "falcon_h1",
            "layer_types": ["hybrid", "hybrid"],
            "mamba_d_ssm": 96,
            "mamba_n_heads": 6,
            "mamba_d_head": "auto",
            "mamba_d_state": 8,
            "mamba_n_groups": 1,
            "mamba_d_conv": 4,
        }
    )
    assert [(group.kind, group.count) for group in facts.attention] == [(LayerKind.FULL, 2)]
    assert [(group.kind, group.count) for group in facts.recurrent] == [(LayerKind.MAMBA2, 2)]
    assert facts.recurrent_state_elements == 2 * 96 * 8
    assert facts.conv_state_elements == 2 * 3 * (96 + 2 * 8)
    assert facts.n_layers == 2


def test_mamba_keeps_a_state_for_every_channel_and_no_cache() -> None:
    facts = read(
        {
            "model_type": "mamba",
            "hidden_size": 768,
            "state_size": 16,
            "num_hidden_layers": 24,
            "expand": 2,
            "conv_kernel": 4,
            "time_step_rank": 48,
            "vocab_size": 50280,
            "intermediate_size": 1536,
        }
    )
    assert facts.attention == ()
    assert facts.recurrent_state_elements == 24 * 1536 * 16
    assert facts.conv_state_elements == 24 * 3 * 1536
    assert facts.parameters.total / 1e6 == pytest.approx(129, abs=0.5)  # state-spaces/mamba-130m, embedding tied


def test_layers_that_read_another_layers_cache_keep_none() -> None:
    gemma = {
        "model_type": "gemma3n_text",
        "hidden_size": 64,
        "intermediate_size": [128] * 6,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 100,
        "sliding_window": 32,
        "layer_types": ["sliding_attention"] * 4 + ["full_attention", "sliding_attention"],
        "num_kv_shared_layers": 2,
    }
    facts = read(gemma)
    assert {(group.kind, group.count, group.sharing) for group in facts.attention} == {
        (LayerKind.SLIDING, 5, 1),
        (LayerKind.FULL, 1, 1),
    }
    assert facts.kv_elements_per_token == 0
    assert facts.kv_elements_per_token_window == 4 * 2 * 32


def test_an_unknown_architecture_is_named_with_the_keys_that_were_not_understood() -> None:
    strange = {"model_type": "warp_drive", "num_warp_heads": 3, "warp_kernel_size": 9}
    facts = read(LLAMA | strange | {"layer_types": ["full_attention", "warp_attention"]})
    told = " ".join(facts.assumed)
    assert "`warp_drive` is not known" in told
    assert "`num_warp_heads`" in told
    assert "`warp_kernel_size`" in told
    assert "`warp_attention`" in told
    assert "full attention" in told


def test_a_config_without_dtype_is_assumed_bf16_and_says_so() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "torch_dtype"}
    facts = read(config)
    assert facts.weights.quant == "bf16"
    assert facts.weights.origin == "assumed"
    assert any("bf16" in sentence for sentence in facts.assumed)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"])
def test_a_config_without_an_essential_key_is_refused_by_name(key: str) -> None:
    config = {name: value for name, value in LLAMA.items() if name != key}
    with pytest.raises(UnreadableModel, match=key):
        read(config)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", 10**9),
        ("num_hidden_layers", -3),
        ("hidden_size", "many"),
        ("hidden_size", 0),
        ("num_attention_heads", [4]),
        ("vocab_size", 1e300),
        ("intermediate_size", True),
        ("hybrid_override_pattern", "MX*"),
    ],
)
def test_damaged_values_are_refused(key: str, value: object) -> None:
    with pytest.raises(UnreadableModel):
        read(LLAMA | {key: value})


def test_more_experts_visited_than_there_are_is_refused() -> None:
    with pytest.raises(UnreadableModel, match="9 of 8"):
        read(LLAMA | {"num_experts": 8, "num_experts_per_tok": 9, "moe_intermediate_size": 16})


def test_draft_layers_are_counted_apart() -> None:
    plain, drafting = read(LLAMA), read(LLAMA | {"num_nextn_predict_layers": 1})
    assert drafting.parameters.total == plain.parameters.total
    assert drafting.draft_layers == 1
    assert drafting.parameters.draft_head == 36_864 + 2 * 64 * 64
    assert drafting.weights.read_bytes == plain.weights.read_bytes
    assert drafting.weights.total_bytes == plain.weights.total_bytes + 2 * drafting.parameters.draft_head


def test_tensors_give_the_bytes() -> None:
    facts = read(LLAMA, tensors=tensors())
    assert facts.parameters.total == 2 * 36_864 + 2 * 6_400
    assert facts.weights.total_bytes == 2 * facts.parameters.total + 2 * 128
    assert facts.weights.read_bytes == facts.weights.total_bytes - 2 * 6_400
    assert facts.weights.origin == "read"
    assert facts.weights.by_type == {"BF16": facts.weights.total_bytes}


def test_tensors_that_hold_no_draft_take_the_draft_away() -> None:
    config = LLAMA | {"num_nextn_predict_layers": 1}
    without, with_draft = read(config, tensors=tensors()), read(config, tensors=tensors(draft=True))
    assert (without.draft_layers, with_draft.draft_layers) == (0, 1)
    assert any("draft" in sentence for sentence in without.assumed)
    assert with_draft.weights.draft_head_bytes == 2 * 36_864 + 128
    assert with_draft.weights.read_bytes == without.weights.read_bytes


def test_tensors_are_believed_against_a_config_that_says_otherwise() -> None:
    facts = read(LLAMA, tensors=tensors(wider=2))
    assert facts.parameters.total == 2 * (36_864 + 3 * 64 * 128) + 2 * 6_400
    assert any("believed" in sentence for sentence in facts.assumed)


def test_the_format_is_that_of_the_tensors_where_the_config_states_only_a_dtype() -> None:
    stored = [TensorInfo(one.name, one.shape, "F8_E4M3", one.elements) for one in tensors()]
    assert read(LLAMA, tensors=stored).weights.quant == "fp8"
    packed = LLAMA | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
    assert read(packed, tensors=tensors(packed=True)).weights.quant == "int4"


def test_packed_tensors_do_not_change_the_counts() -> None:
    facts = read(LLAMA, tensors=tensors(packed=True))
    assert facts.parameters.total == 2 * 36_864 + 2 * 6_400


def test_a_stated_format_overrides_the_tensors() -> None:
    facts = read(LLAMA, tensors=tensors(), quant="q8_0")
    assert facts.weights.total_bytes == round(facts.parameters.total * 8.5 / 8)
    assert facts.weights.origin == "inferred"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_SHAPE_KEYS = st.sampled_from(
    sorted(
        {key for config, _, _ in PUBLISHED.values() for key in config}
        | {"text_config", "quantization_config", "mamba_d_state", "linear_num_value_heads", "block_configs"}
        | {"hybrid_override_pattern", "sliding_window", "mtp_hybrid_override_pattern", "vision_config", "dtype"}
    )
)


@given(name=st.sampled_from(sorted(PUBLISHED)), damage=st.dictionaries(_SHAPE_KEYS, _JSON, max_size=3))
@settings(deadline=None, max_examples=150)
def test_any_damage_gives_facts_or_one_clear_error(name: str, damage: dict[str, Any]) -> None:
    try:
        facts = read(PUBLISHED[name][0] | damage)
    except UsageError as error:
        assert str(error)
    else:
        assert facts.parameters.total >= facts.parameters.routed_experts >= 0


@given(
    hidden=st.integers(1, 64).map(lambda n: 16 * n),
    layers=st.integers(1, 12),
    heads=st.sampled_from([1, 2, 4, 8]),
    vocab=st.integers(1, 5000),
    tied=st.booleans(),
)
def test_a_larger_model_never_counts_less(hidden: int, layers: int, heads: int, vocab: int, *, tied: bool) -> None:
    config = LLAMA | {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
    }
    facts, taller = read(config), read(config | {"num_hidden_layers": layers + 1})
    assert taller.parameters.total > facts.parameters.total
    assert taller.kv_elements_per_token > facts.kv_elements_per_token
    assert facts.parameters.active <= facts.parameters.total
    lookup = 0 if tied else facts.parameters.embedding
    assert facts.parameters.active == facts.parameters.total - lookup
