"""A model's shape from GGUF metadata and tensor names."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widelane.errors import UnreadableModel, UsageError
from widelane.facts.files.gguf_header import ArrayInfo, GgufHeader
from widelane.facts.files.tensor_types import TensorInfo
from widelane.facts.model import LayerKind, ModelFacts
from widelane.facts.shapes.gguf_model import model_from_gguf

_ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output")
_MLP = ("ffn_gate", "ffn_up", "ffn_down")
_EXPERTS = ("ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")


def header(
    architecture: str,
    blocks: list[tuple[str, ...]],
    *,
    shapes: dict[str, tuple[int, ...]] | None = None,
    general: dict[str, Any] | None = None,
    tied: bool = False,
    **keys: Any,
) -> GgufHeader:
    """A header with these blocks; a dot in a key is written `__`. Every matrix is 8 x 8 unless `shapes` says else."""
    stated = {
        "block_count": len(blocks),
        "embedding_length": 64,
        "attention__head_count": 4,
        "attention__head_count_kv": 2,
        "attention__key_length": 16,
        "attention__value_length": 16,
        "context_length": 4096,
    } | keys
    metadata = {f"{architecture}.{key.replace('__', '.')}": value for key, value in stated.items()}
    metadata = {"general.architecture": architecture} | metadata | (general or {})
    sized = shapes or {}

    def tensor(name: str) -> TensorInfo:
        shape = sized.get(name.split(".", 2)[-1] if name.startswith("blk.") else name, (8, 8))
        return TensorInfo(f"{name}.weight", shape, "F16", 2 * math.prod(shape))

    names = [f"blk.{i}.{part}" for i, parts in enumerate(blocks) for part in parts]
    tables = ["token_embd", "output_norm"] + ([] if tied else ["output"])
    sized = {"token_embd": (100, 64), "output": (100, 64), "output_norm": (64,)} | sized
    tensors = tuple(tensor(name) for name in [*tables, *names])
    return GgufHeader(Path("/models/a-model.gguf"), 3, metadata, tensors, (Path("/models/a-model.gguf"),))


def kinds(facts: ModelFacts) -> dict[LayerKind, int]:
    counted: dict[LayerKind, int] = {}
    for group in (*facts.attention, *facts.recurrent):
        counted[group.kind] = counted.get(group.kind, 0) + group.count
    return counted


def test_a_plain_decoder() -> None:
    facts = model_from_gguf(header("llama", [(*_ATTENTION, *_MLP)] * 3))
    assert kinds(facts) == {LayerKind.FULL: 3}
    assert facts.kv_elements_per_token == 3 * 2 * 32
    assert facts.parameters.total == 2 * 6_400 + 3 * 7 * 64
    assert facts.parameters.active == 6_400 + 3 * 7 * 64
    assert facts.weights.read_bytes == 2 * facts.parameters.active + 128
    assert (facts.name, facts.source) == ("a-model", "/models/a-model.gguf")
    assert facts.assumed == ()


def test_without_an_output_tensor_the_embedding_is_the_output() -> None:
    facts = model_from_gguf(header("llama", [(*_ATTENTION, *_MLP)], tied=True))
    assert facts.parameters.total == facts.parameters.active == 6_400 + 7 * 64
    assert facts.weights.embedding_bytes == 0


def test_experts_are_counted_from_their_tensors() -> None:
    shapes = dict.fromkeys(_EXPERTS[1:], (8, 4, 16)) | {"ffn_gate_inp": (8, 64)}
    facts = model_from_gguf(
        header("qwen3moe", [(*_ATTENTION, *_EXPERTS)] * 2, shapes=shapes, expert_count=8, expert_used_count=2)
    )
    assert facts.experts is not None
    assert (facts.experts.count, facts.experts.top_k, facts.experts.layers) == (8, 2, 2)
    assert facts.parameters.routed_experts == 2 * 3 * 8 * 4 * 16
    inactive = facts.parameters.routed_experts * 6 // 8
    assert facts.parameters.active == facts.parameters.total - 6_400 - inactive
    assert facts.weights.routed_expert_bytes == 2 * facts.parameters.routed_experts


def test_a_layer_that_drafts_is_no_layer_of_the_stack() -> None:
    draft = (*_ATTENTION, *_EXPERTS, "nextn.eh_proj", "nextn.embed_tokens")
    facts = model_from_gguf(
        header(
            "glm4moe",
            [(*_ATTENTION, *_MLP), (*_ATTENTION, *_EXPERTS), draft],
            nextn_predict_layers=1,
            expert_count=8,
            expert_used_count=2,
        )
    )
    assert (facts.n_layers, facts.draft_layers) == (2, 1)
    assert kinds(facts) == {LayerKind.FULL: 2}
    assert facts.weights.draft_head_bytes == 2 * 9 * 64
    assert facts.weights.other_bytes == 2 * 64  # the copy of the embedding


def test_a_conversion_that_dropped_the_draft_has_none() -> None:
    facts = model_from_gguf(header("glm4moe", [(*_ATTENTION, *_MLP)] * 2, nextn_predict_layers=1))
    assert (facts.n_layers, facts.draft_layers) == (2, 0)


def test_windows_by_a_flag_for_each_layer_with_heads_of_their_own() -> None:
    """Gemma 4: windowed layers have other head sizes, KV heads differ by layer, the last layers keep no cache."""
    facts = model_from_gguf(
        header(
            "gemma4",
            [(*_ATTENTION, *_MLP)] * 4,
            attention__sliding_window=32,
            attention__sliding_window_pattern=(True, True, False, True),
            attention__head_count_kv=(2, 2, 1, 2),
            attention__key_length=32,
            attention__value_length=32,
            attention__key_length_swa=16,
            attention__value_length_swa=16,
            attention__shared_kv_layers=1,
        )
    )
    assert kinds(facts) == {LayerKind.SLIDING: 3, LayerKind.FULL: 1}
    assert facts.kv_elements_per_token == 64
    assert facts.kv_elements_per_token_window == 2 * 2 * 32
    assert facts.window == 32


@pytest.mark.parametrize(
    ("architecture", "full"),
    [("gemma2", 6), ("gemma3", 2), ("gpt-oss", 6), ("cohere2", 3), ("phi3", 12), ("qwen2", 12)],
)
def test_windows_by_the_habit_of_the_architecture(architecture: str, full: int) -> None:
    facts = model_from_gguf(header(architecture, [(*_ATTENTION, *_MLP)] * 12, attention__sliding_window=32))
    assert kinds(facts).get(LayerKind.FULL, 0) == full
    assert kinds(facts).get(LayerKind.SLIDING, 0) == 12 - full


def test_latent_attention_caches_one_row() -> None:
    names = ("attn_q_a", "attn_q_b", "attn_kv_a_mqa", "attn_k_b", "attn_v_b", "attn_output", *_MLP)
    keys: dict[str, Any] = {
        "attention__head_count_kv": 1,
        "attention__kv_lora_rank": 512,
        "attention__q_lora_rank": 1536,
        "attention__key_length": 576,
        "attention__value_length": 512,
        "rope__dimension_count": 64,
    }
    new = model_from_gguf(
        header("deepseek2", [names] * 2, attention__key_length_mla=192, attention__value_length_mla=128, **keys)
    )
    assert kinds(new) == {LayerKind.MLA: 2}
    assert new.kv_elements_per_token == 2 * 576
    assert (new.attention[0].score_key_dim, new.attention[0].score_value_dim) == (192, 128)
    old = model_from_gguf(header("deepseek2", [names] * 2, **(keys | {"attention__head_count_kv": 4})))
    assert any("key_length_mla" in sentence for sentence in old.assumed)


def test_gated_deltanet_beside_attention() -> None:
    """Qwen3.5 as llama.cpp writes it: 48 value heads of 128 x 128, 16 key heads, convolution of four."""
    linear = ("attn_qkv", "attn_gate", "ssm_conv1d", "ssm_alpha", "ssm_beta", "ssm_a", "ssm_out", *_MLP)
    facts = model_from_gguf(
        header(
            "qwen35",
            [linear, linear, linear, (*_ATTENTION, *_MLP)],
            ssm__conv_kernel=4,
            ssm__state_size=128,
            ssm__group_count=16,
            ssm__time_step_rank=48,
            ssm__inner_size=6144,
            full_attention_interval=4,
        )
    )
    assert kinds(facts) == {LayerKind.FULL: 1, LayerKind.DELTA: 3}
    assert facts.recurrent_state_elements == 3 * 786_432
    assert facts.conv_state_elements == 3 * 3 * 10_240
    assert facts.recurrent[0].state_dtype is None


def test_mamba_of_either_kind() -> None:
    sizes: dict[str, Any] = {"ssm__conv_kernel": 4, "ssm__state_size": 16, "ssm__inner_size": 128}
    first = model_from_gguf(
        header("mamba", [("ssm_in", "ssm_x", "ssm_dt", "ssm_conv1d", "ssm_out")] * 2, **sizes, ssm__time_step_rank=4)
    )
    assert kinds(first) == {LayerKind.MAMBA: 2}
    assert (first.recurrent_state_elements, first.conv_state_elements) == (2 * 128 * 16, 2 * 3 * 128)
    second = model_from_gguf(
        header("nemotron_h", [("ssm_in", "ssm_conv1d", "ssm_out"), _ATTENTION, _MLP], **sizes, ssm__group_count=2,
               attention__head_count_kv=(0, 2, 0))
    )  # fmt: skip
    assert kinds(second) == {LayerKind.MAMBA2: 1, LayerKind.FULL: 1}
    assert second.n_layers == 3
    assert second.conv_state_elements == 3 * (128 + 2 * 2 * 16)


def test_mamba_beside_attention_in_one_layer() -> None:
    both = (*_ATTENTION, "ssm_in", "ssm_conv1d", "ssm_out", *_MLP)
    facts = model_from_gguf(
        header("falcon-h1", [both] * 2, ssm__conv_kernel=4, ssm__state_size=16, ssm__inner_size=128, ssm__group_count=1)
    )
    assert kinds(facts) == {LayerKind.FULL: 2, LayerKind.MAMBA2: 2}
    assert facts.n_layers == 2


def test_short_convolutions_and_delta_attention_and_rwkv() -> None:
    lfm = model_from_gguf(
        header("lfm2", [("shortconv.conv", "shortconv.in_proj", *_MLP), (*_ATTENTION, *_MLP)], shortconv__l_cache=3)
    )
    assert (kinds(lfm), lfm.conv_state_elements) == ({LayerKind.LINEAR: 1, LayerKind.FULL: 1}, 2 * 64)
    kda = (*_ATTENTION, "ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v", "ssm_f_a", "ssm_f_b", *_MLP)
    kimi = model_from_gguf(header("kimi-linear", [kda], ssm__conv_kernel=4, kda__head_dim=16))
    assert kinds(kimi) == {LayerKind.LINEAR: 1}
    assert (kimi.recurrent_state_elements, kimi.conv_state_elements) == (4 * 16 * 16, 3 * 3 * 64)
    mixing = [("time_mix_key", "channel_mix_key")]
    rwkv = model_from_gguf(header("rwkv7", mixing, wkv__head_size=16, attention__head_count=0))
    assert (rwkv.recurrent_state_elements, rwkv.conv_state_elements) == (64 * 16, 2 * 64)


def test_chat_template_vocabulary_and_names_are_read() -> None:
    general = {
        "general.name": "A Model",
        "general.basename": "model",
        "general.file_type": 15,
        "tokenizer.chat_template": "{{ messages }}",
        "tokenizer.ggml.tokens": ArrayInfo("string", 1234),
    }
    facts = model_from_gguf(header("llama", [(*_ATTENTION, *_MLP)], general=general))
    assert (facts.name, facts.made_for) == ("A Model", ("A Model", "model"))
    assert (facts.chat_template, facts.vocab_size, facts.context_tokens) == ("{{ messages }}", 1234, 4096)
    assert facts.weights.quant == "f16"  # what the tensors are, whatever the file type says


def test_another_format_may_be_planned() -> None:
    head = header("llama", [(*_ATTENTION, *_MLP)] * 3)
    planned = model_from_gguf(head, quant="q8_0").weights
    assert planned.total_bytes == round((2 * 6_400 + 3 * 7 * 64) * 8.5 / 8)
    assert planned.origin == "inferred"
    sized = model_from_gguf(head, weights_bytes=9_000.0)
    assert sized.weights.total_bytes == 9_000
    assert any("bits a parameter" in sentence for sentence in sized.assumed)


def test_what_is_no_language_model_is_refused() -> None:
    with pytest.raises(UnreadableModel, match="vision projector"):
        model_from_gguf(header("clip", []))
    with pytest.raises(UnreadableModel, match="adapter"):
        model_from_gguf(header("llama", [], general={"general.type": "adapter"}))
    with pytest.raises(UnreadableModel, match=r"general\.architecture"):
        model_from_gguf(header("llama", [], general={"general.architecture": 7}))


@pytest.mark.parametrize("key", ["block_count", "embedding_length", "attention__head_count"])
def test_an_essential_key_that_is_missing_is_named(key: str) -> None:
    with pytest.raises(UnreadableModel, match=key.replace("__", ".")):
        model_from_gguf(header("llama", [(*_ATTENTION, *_MLP)], **{key: None, "attention__key_length": None}))


def test_an_unknown_architecture_is_read_by_its_tensors_and_named() -> None:
    facts = model_from_gguf(header("warpdrive", [(*_ATTENTION, *_MLP)]))
    assert kinds(facts) == {LayerKind.FULL: 1}
    assert any("`warpdrive` is not known" in sentence for sentence in facts.assumed)


_VALUES = st.one_of(
    st.integers(-(2**40), 2**63), st.floats(), st.text(max_size=5), st.booleans(), st.none(),
    st.tuples(st.integers(0, 9), st.integers(0, 9)), st.just(ArrayInfo("string", 10**12)),
)  # fmt: skip
_KEY_WORDS = """
    block_count embedding_length attention__head_count attention__head_count_kv attention__key_length
    attention__sliding_window attention__sliding_window_pattern attention__kv_lora_rank attention__key_length_mla
    attention__shared_kv_layers expert_count expert_used_count ssm__inner_size ssm__state_size ssm__conv_kernel
    shortconv__l_cache nextn_predict_layers vocab_size
"""
_KEYS = st.sampled_from(_KEY_WORDS.split())
_BLOCKS = st.sampled_from([_EXPERTS, _MLP, ("ssm_in",), ("shortconv",)])


@given(damage=st.dictionaries(_KEYS, _VALUES, max_size=4), block=_BLOCKS)
@settings(deadline=None, max_examples=150)
def test_any_damage_gives_facts_or_one_clear_error(damage: dict[str, Any], block: tuple[str, ...]) -> None:
    try:
        facts = model_from_gguf(header("gemma4", [(*_ATTENTION, *block)] * 2, **damage))
    except UsageError as error:
        assert str(error)
    else:
        assert facts.parameters.total > 0
