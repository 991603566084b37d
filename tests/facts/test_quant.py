"""Words for weight formats, what configs state of them, and the bytes that follow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.facts.small_llama import LLAMA, read
from widelane.errors import UsageError
from widelane.facts.known_models import known_model
from widelane.facts.model import ModelFacts, Weights
from widelane.facts.weights.quant import find_format, format_names, format_of, format_of_bits

_EMBEDDING = 248_320 * 5_120
"""Elements of the input embedding of Qwen3.6-27B."""


def qwen(**words: Any) -> ModelFacts:
    facts = known_model("qwen3.6-27b", **words)
    assert facts is not None
    return facts


def adds_up(weights: Weights) -> bool:
    return weights.total_bytes == (
        weights.read_bytes
        + weights.routed_expert_bytes
        + weights.embedding_bytes
        + weights.draft_head_bytes
        + weights.other_bytes
    )


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("FP8", "fp8"),
        ("Q4_K_M GGUF", "q4_k_m"),
        ("UD-Q4_K_XL GGUF", "q4_k_xl"),
        ("MXFP4 GGUF", "mxfp4"),
        ("nvfp4 (RadixArk)", "nvfp4"),
        ("q4", "q4_k_m"),
        ("q8", "q8_0"),
        ("bfloat16", "bf16"),
        ("mlx-4bit", "4bit"),
        ("w4a16", "int4"),
    ],
)
def test_words_of_people_and_of_file_names_are_understood(word: str, name: str) -> None:
    assert format_of(word).name == name


@pytest.mark.parametrize(("note", "name"), [("nvfp4 bf16-lmhead", "nvfp4"), ("awq/int4 dual", "int4"), ("fast", None)])
def test_a_note_begins_with_its_format(note: str, name: str | None) -> None:
    found = find_format(note)
    assert (found.name if found else None) == name


@pytest.mark.parametrize("typed", ["q5_foo", "fp8-ish", "q9_z"])
def test_a_word_that_only_begins_like_a_format_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="not known"):
        format_of(typed)


def test_an_unknown_word_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="q4_k_m"):
        format_of("q9_z")


@given(st.text(max_size=20))
def test_any_word_is_a_format_or_a_usage_error(word: str) -> None:
    try:
        assert format_of(word).name in format_names()
    except UsageError as error:
        assert repr(word) in str(error)


@pytest.mark.parametrize("name", format_names())
def test_every_format_is_found_by_its_own_name_and_needs_no_more_than_float32(name: str) -> None:
    made = format_of(name)
    assert made.name == name
    assert all(1.5 <= bits <= 32 for bits in (made.mixers, made.mlps, made.experts, made.embedding, made.output))


def test_block_scales_are_part_of_the_bits() -> None:
    assert format_of("q8_0").mlps == 34 * 8 / 32
    assert format_of("q4_0").mlps == 18 * 8 / 32
    assert format_of("nvfp4").mlps == 4 + 8 / 16
    assert format_of("mxfp4").experts == 4 + 8 / 32


def test_the_nearest_common_format_of_an_average() -> None:
    assert format_of_bits(16.3).name == "bf16"
    assert format_of_bits(8.4).name == "fp8"
    assert format_of_bits(4.8).name == "q4_k_m"


STATED: list[tuple[str, dict[str, Any], str]] = [
    ("fp8 in blocks", {"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
    ("mxfp4", {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, "mxfp4"),
    ("ModelOpt NVFP4", {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4"),
    ("ModelOpt, older", {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}, "fp8"),
    ("AWQ", {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "int4"),
    ("GPTQ 8", {"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8"),
    ("AutoRound", {"quant_method": "auto-round", "bits": 4, "group_size": 128}, "int4"),
    ("bitsandbytes", {"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
    ("MLX", {"group_size": 64, "bits": 4}, "4bit"),
    (
        "compressed-tensors, fp8",
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
        },
        "fp8",
    ),
    (
        "compressed-tensors, nvfp4",
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
        },
        "nvfp4",
    ),
    (
        "compressed-tensors, int4",
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"dense_linear": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
        },
        "int4",
    ),
]


@pytest.mark.parametrize(("says", "section", "name"), STATED, ids=[row[0] for row in STATED])
def test_a_quantization_config_names_the_format(says: str, section: dict[str, Any], name: str) -> None:
    weights = read(LLAMA | {"quantization_config": section}).weights
    assert weights.quant == name
    assert weights.origin == "inferred"
    assert adds_up(weights)


def test_mlx_states_its_bits_under_another_key_and_packs_the_embedding() -> None:
    weights = read(LLAMA | {"quantization": {"group_size": 64, "bits": 4, "mode": "affine"}}).weights
    assert weights.quant == "4bit"
    assert weights.embedding_bytes == 6_400 * 4.5 / 8


def test_fp8_keeps_the_embedding_and_the_output_in_bf16() -> None:
    weights = read(LLAMA | {"quantization_config": {"quant_method": "fp8"}}).weights
    assert weights.embedding_bytes == weights.output_bytes == 2 * 6_400
    assert weights.read_bytes == pytest.approx(2 * 36_864 + 2 * 6_400, rel=0.003)


def test_modules_that_a_config_leaves_out_stay_in_bf16() -> None:
    """Kimi-K2-Thinking packs only its routed experts."""
    section = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
        "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"],
    }
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "model_type": "qwen3_moe"}
    weights = read(LLAMA | experts | {"quantization_config": section}).weights
    attention_and_router = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 64 * 8)
    assert weights.read_bytes - weights.output_bytes == 2 * attention_and_router
    assert weights.routed_expert_bytes == round(2 * 8 * 3 * 64 * 16 * (4 + 20 / 32) / 8)


def test_a_stated_total_keeps_the_bf16_embedding_of_an_fp8_checkpoint() -> None:
    weights = qwen(quant="fp8", weights_bytes=28.5e9).weights
    assert weights.total_bytes == 28_500_000_000
    assert weights.embedding_bytes == 2 * _EMBEDDING == 2_542_796_800
    assert weights.read_bytes == weights.total_bytes - weights.embedding_bytes - weights.draft_head_bytes
    assert weights.origin == "read"


def test_a_stated_total_of_a_gguf_mix_has_a_packed_embedding() -> None:
    weights = qwen(quant="q4", weights_bytes=17.5e9).weights
    assert weights.total_bytes == 17_500_000_000
    assert 4 < 8 * weights.embedding_bytes / _EMBEDDING < 5
    assert adds_up(weights)


def test_gpt_oss_as_gguf_packs_more_than_its_experts() -> None:
    """The published file is 12.10e9 bytes: the experts in MXFP4 are 10.15e9, so the rest cannot be bf16."""
    facts = known_model("gpt-oss-20b", quant="MXFP4 GGUF", weights_bytes=12_101_070_356)
    assert facts is not None
    assert facts.weights.routed_expert_bytes == facts.parameters.routed_experts * 4.25 / 8
    assert facts.weights.read_bytes + facts.weights.embedding_bytes == 12_101_070_356 - 10_152_345_600


def test_a_size_without_a_word_finds_the_nearest_format_and_says_so() -> None:
    facts = qwen(weights_bytes=17.5e9)
    assert facts.weights.quant == "q4_k_m"
    assert any("q4_k_m" in sentence for sentence in facts.assumed)


@pytest.mark.parametrize("size", [0.0, 28.5, 28.5e12, float("nan"), float("inf"), -1e9])
def test_a_size_that_no_format_makes_is_refused(size: float) -> None:
    with pytest.raises(UsageError, match="gigabytes"):
        qwen(quant="fp8", weights_bytes=size)


@given(
    quant=st.sampled_from(format_names()),
    bits=st.none() | st.floats(1.0, 30.0),
    tied=st.booleans(),
    drafts=st.integers(0, 1),
    experts=st.booleans(),
)
def test_parts_always_add_up_to_the_whole(
    quant: str, bits: float | None, drafts: int, *, tied: bool, experts: bool
) -> None:
    config = LLAMA | {"tie_word_embeddings": tied, "num_nextn_predict_layers": drafts}
    if experts:
        config |= {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    plain = read(config).parameters
    size = None if bits is None else bits / 8 * (plain.total + plain.draft_head)
    weights = read(config, quant=quant, weights_bytes=size).weights
    assert adds_up(weights)
    assert min(weights.read_bytes, weights.output_bytes, weights.draft_head_bytes, weights.routed_expert_bytes) >= 0
    assert weights.embedding_bytes == 0 if tied else weights.embedding_bytes > 0
    if size is not None:
        assert weights.total_bytes == round(size)


@given(small=st.floats(9e9, 60e9), more=st.floats(1e8, 1e10), quant=st.sampled_from(["fp8", "q4_k_m", "nvfp4", "bf16"]))
def test_more_bytes_in_all_are_more_bytes_to_read(small: float, more: float, quant: str) -> None:
    smaller, larger = (qwen(quant=quant, weights_bytes=size).weights for size in (small, small + more))
    assert larger.total_bytes > smaller.total_bytes
