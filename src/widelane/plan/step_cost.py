"""What one decode step of a model costs, from its facts and the types its cache and state are kept in."""

from __future__ import annotations

from widelane.facts.model import AttentionLayers, LayerKind, ModelFacts
from widelane.plan.step_time import StepCost

_SCANS = (LayerKind.MAMBA, LayerKind.MAMBA2)
_LATENT_ROPE_DIM = 64
"""Elements of a latent row that carry the position and no value: `qk_rope_head_dim` of DeepSeek-V2 and V3, Kimi K2 and
GLM-4.7-Flash alike."""


def cost_of(
    facts: ModelFacts,
    *,
    key_bytes_per_element: float = 2.0,
    value_bytes_per_element: float | None = None,
    state_bytes_per_element: float = 4.0,
    conv_bytes_per_element: float | None = None,
) -> StepCost:
    """The cost of a step.

    Args:
        key_bytes_per_element, value_bytes_per_element: cache types (2 is f16, 1 fp8, 34/32 q8_0); values as keys when
            None.
        state_bytes_per_element: type of the recurrent state (4 is float32, what Qwen3.5 and Nemotron-H checkpoints ask
            for, and llama.cpp's only one).
        conv_bytes_per_element: type of the convolution's columns; None is the state's.
    """
    value_bytes = key_bytes_per_element if value_bytes_per_element is None else value_bytes_per_element
    conv_bytes = state_bytes_per_element if conv_bytes_per_element is None else conv_bytes_per_element
    lasting = [group for group in facts.attention if group.window is None]
    sliding = [group for group in facts.attention if group.window is not None]
    experts = facts.experts
    routed_active = facts.parameters.routed_experts * experts.top_k / experts.count if experts else 0.0
    return StepCost(
        dense_bytes=facts.weights.read_bytes,
        expert_bytes=facts.weights.routed_expert_bytes,
        n_experts=experts.count if experts else 0,
        top_k=experts.top_k if experts else 0,
        kv_bytes_per_token=sum(_token_bytes(group, key_bytes_per_element, value_bytes) for group in lasting),
        kv_bytes_per_token_window=sum(_token_bytes(group, key_bytes_per_element, value_bytes) for group in sliding),
        window=facts.window,
        state_bytes=facts.recurrent_state_elements * state_bytes_per_element + facts.conv_state_elements * conv_bytes,
        active_parameters=facts.parameters.active,
        n_layers=facts.n_layers,
        dense_parameters=facts.parameters.active - routed_active,
        draft_bytes=facts.weights.output_bytes + facts.weights.draft_head_bytes,
        attention_flops_per_token=sum(decode_flops_per_token(group) for group in lasting),
        attention_flops_per_token_window=sum(decode_flops_per_token(group) for group in sliding),
        scan_state=any(group.kind in _SCANS for group in facts.recurrent),
    )


def decode_flops_per_token(group: AttentionLayers) -> float:
    """Operations of one query token on one cached token: a multiplication and an addition an element, each head.

    Latent attention works on the compressed row, which serves as key and, without its rotary part, as value
    (DeepSeek-V2, section 2.1.2).
    """
    value_dim = group.key_dim - _LATENT_ROPE_DIM if group.kind is LayerKind.MLA else group.value_dim
    return 2.0 * group.count * group.heads * (group.key_dim + value_dim)


def _token_bytes(group: AttentionLayers, key_bytes: float, value_bytes: float) -> float:
    rows = (group.count - group.sharing) * group.kv_heads
    return rows * (group.key_dim * key_bytes + group.value_dim * value_bytes)
