"""What a config leaves unsaid: the habits of each `model_type`, as its library code has them.

Read from transformers 5.24 (`models/*/configuration_*.py`, `modeling_*.py`) and, for types that ship their own code,
from the public checkpoints. Only habits that change a shape are here; everything else comes from the config's keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_NO_DEFAULTS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One `model_type`.

    Attributes:
        name: normalised `model_type`, without `_text`.
        known: whether it was checked; an unknown one is read by its keys, and the facts say so.
        tied: the output layer is the embedding when the config does not say.
        gated: the MLP has three matrices (gate, up, down), not two.
        gated_query: the query projection also makes an output gate of its own size.
        window_period: every how many layers one keeps the whole context, where a window is stated without a pattern;
            0 when all layers are windowed.
        window_needs_switch: a window counts only when `use_sliding_window` is true.
        solitary: a layer is either a mixer or an MLP (Nemotron-H, Mamba), not one after the other.
        defaults: values of keys that published configs of this type omit.
    """

    name: str
    known: bool
    tied: bool
    gated: bool
    gated_query: bool
    window_period: int
    window_needs_switch: bool
    solitary: bool
    defaults: Mapping[str, int] = field(default_factory=dict)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TIED = _words("""
    bloom cohere cohere2 cohere2_moe ernie4_5 ernie4_5_moe falcon falcon_mamba gemma gemma2 gemma3 gemma3n gemma4
    gpt2 gpt_bigcode granite_swa jetmoe lfm2 lfm2_moe mamba minicpm3 mpt opt recurrent_gemma smollm3 starcoder2
    vaultgemma youtu zamba zamba2
""")
_PLAIN_MLP = _words("""
    apertus arcee bloom codegen falcon gpt2 gpt_bigcode gpt_neo gpt_neox gptj mpt nanochat nemotron nemotron_h opt
    persimmon phi starcoder2
""")
_GATED_QUERY = _words("qwen3_5 qwen3_5_moe qwen3_next qwen4_exp")
_SOLITARY = _words("falcon_mamba mamba mamba2 nemotron_h")
_WINDOW_PERIOD = {
    "gemma2": 2,
    "gpt_oss": 2,
    "cohere2": 4,
    "exaone4": 4,
    "exaone_moe": 4,
    "olmo3": 4,
    "afmoe": 4,
    "gemma3n": 5,
    "gemma3": 6,
    "gemma4": 6,
}
_WINDOW_SWITCH = _words("""
    dots1 qwen2 qwen2_5_vl qwen2_moe qwen2_vl qwen3 qwen3_moe qwen3_vl qwen3_vl_moe smollm3
""")
_DEFAULTS: dict[str, Mapping[str, int]] = {
    # google/gemma-3-4b-it and its larger siblings state only what differs from the library's defaults.
    "gemma3": {
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
    },
    "gemma4": {"global_head_dim": 512, "head_dim": 256},
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "sliding_window": 4096},
    "glm": {"head_dim": 128},
    "glm4": {"head_dim": 128},
    "gpt_oss": {"head_dim": 64},
    "nemotron_h": {"head_dim": 128},
    "qwen2_moe": {"shared_expert_intermediate_size": 5632},
    "qwen3": {"head_dim": 128},
    "qwen3_next": {"head_dim": 256, "full_attention_interval": 4},
    "qwen3_5": {"head_dim": 256, "full_attention_interval": 4},
    "qwen3_5_moe": {"head_dim": 256, "full_attention_interval": 4},
    "seed_oss": {"head_dim": 128},
    "granitemoehybrid": {"mamba_d_conv": 4, "mamba_n_groups": 1},
    "lfm2": {"conv_L_cache": 3},
    "lfm2_moe": {"conv_L_cache": 3},
}
_OTHERS = _words("""
    afmoe baichuan bailing_hybrid bailing_moe bailing_moe_linear bailing_moe_v2 bamba bitnet chatglm deci deepseek
    deepseek_v2 deepseek_v3 deepseek_v32 dots1 exaone exaone4 exaone_moe falcon_h1 flex_olmo glm glm4 glm4_moe
    glm4_moe_lite glm4v glm4v_moe glm_moe_dsa gpt_oss granite granitemoe granitemoehybrid granitemoeshared helium
    hunyuan hunyuan_v1_dense hunyuan_v1_moe hy_v3 internlm2 internlm3 jamba kimi_k2 kimi_linear laguna llama llama4
    longcat_flash mamba2 mimo mimo_v2_flash minicpm minimax minimax_m1 minimax_m2 minimax_text_01 ministral
    ministral3 mistral mistral3 mistral4 mixtral nemotron_nas olmo olmo2 olmo3 olmo_hybrid olmoe phi3 phi3small
    phi4_multimodal phi4mm phimoe qwen2 qwen2_5_vl qwen2_moe qwen2_vl qwen3 qwen3_moe qwen3_omni_moe qwen3_vl
    qwen3_vl_moe rwkv rwkv5 rwkv6 rwkv6qwen2 rwkv7 seed_oss solar_open stablelm step3p5 step3p7 xverse yi
""")
_NOT_CHECKED = _words("jetmoe qwen4_exp zamba zamba2")
_KNOWN = (_OTHERS | _TIED | _PLAIN_MLP | _GATED_QUERY | _SOLITARY | frozenset(_WINDOW_PERIOD)) - _NOT_CHECKED


def family_of(model_type: str) -> Family:
    """The habits of a `model_type`; those of a Llama-like decoder for one that is not known."""
    name = model_type.lower().replace("-", "_").replace(".", "_").removesuffix("_text")
    return Family(
        name=name,
        known=name in _KNOWN,
        tied=name in _TIED,
        gated=name not in _PLAIN_MLP,
        gated_query=name in _GATED_QUERY,
        window_period=_WINDOW_PERIOD.get(name, 0),
        window_needs_switch=name in _WINDOW_SWITCH,
        solitary=name in _SOLITARY,
        defaults=_DEFAULTS.get(name, _NO_DEFAULTS),
    )
