"""Recurrent mixers: the state a sequence keeps in one layer, and the layer's weights, from the keys of a config.

Sizes follow the engines' caches: `kernel - 1` columns of the convolution and one matrix a head (vLLM
`layers/mamba/mamba_utils.py`, llama.cpp `llama-hparams.cpp`).
"""

from __future__ import annotations

import math

from widelane.errors import UnreadableModel
from widelane.facts.model import LayerKind
from widelane.facts.shapes.blocks import RecurrentShape
from widelane.facts.shapes.config_keys import ConfigKeys
from widelane.facts.shapes.families import Family
from widelane.facts.shapes.rwkv_shapes import rwkv

_MAMBA_HEADS = ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
_STATE = ("ssm_state_size", "mamba_d_state", "state_size", "mamba_state_dim")
_KERNEL = ("conv_kernel", "mamba_d_conv", "conv_kernel_size", "conv1d_width", "d_conv")


def recurrent_shape(keys: ConfigKeys, family: Family, hidden: int) -> RecurrentShape:
    """The recurrent mixer of a config's recurrent layers; which one, its keys tell."""
    if keys.states("linear_attn_config", "linear_num_heads", "short_conv_kernel_size"):
        return _kimi_delta(keys, family, hidden)
    if keys.states("linear_num_value_heads"):
        return _gated_delta(keys, family, hidden)
    if keys.states("conv_L_cache") or "conv_L_cache" in family.defaults:
        return _short_convolution(keys, family, hidden)
    if keys.states("lru_width") or family.name == "recurrent_gemma":
        return _gated_linear_unit(keys, hidden)
    if family.name.startswith("rwkv"):
        return rwkv(keys, family, hidden)
    if keys.states(*_MAMBA_HEADS) or (keys.states("num_heads", "n_groups") and keys.states(*_STATE)):
        return _mamba2(keys, family, hidden)
    if keys.states(*_STATE):
        return _mamba(keys, hidden)
    return _lightning(keys, family, hidden)


def state_dtype(keys: ConfigKeys) -> str | None:
    """The element type that the checkpoint asks for its recurrent state, None when it names none."""
    return keys.text("mamba_ssm_dtype", "mamba_ssm_cache_dtype", "ssm_dtype")


def _mamba(keys: ConfigKeys, hidden: int) -> RecurrentShape:
    """Mamba (1): every channel has its own state of `d_state` elements."""
    state = keys.integer(*_STATE)
    inner = (keys.maybe("mamba_expand", "expand") or 2) * hidden
    rank = keys.maybe("time_step_rank", "mamba_dt_rank") or math.ceil(hidden / 16)  # "auto"
    kernel = keys.maybe(*_KERNEL) or 4
    return RecurrentShape(
        kind=LayerKind.MAMBA,
        conv_dim=inner,
        conv_kernel=kernel,
        state_elements=inner * state,
        matrices=hidden * 2 * inner
        + inner * kernel
        + inner * (rank + 2 * state)
        + rank * inner
        + inner * state
        + inner * hidden,
    )


def _mamba2(keys: ConfigKeys, family: Family, hidden: int) -> RecurrentShape:
    """Mamba-2: heads share their decay; B and C are shared within a group."""
    heads = keys.maybe(*_MAMBA_HEADS) or keys.integer("num_heads")
    state = keys.integer(*_STATE)
    inner = keys.maybe("mamba_d_ssm")
    keys.acknowledge("mamba_d_head", "mamba_head_dim")
    if inner is None:
        head_dim = keys.maybe("mamba_head_dim", "mamba_d_head", "mamba_headdim")
        if head_dim is None and not keys.states(*_MAMBA_HEADS):
            head_dim = keys.maybe("head_dim")
        inner = heads * head_dim if head_dim else (keys.maybe("mamba_expand", "expand") or 2) * hidden
    groups = keys.maybe("n_groups", "mamba_n_groups", "mamba_ngroups") or family.defaults.get("mamba_n_groups") or 1
    kernel = keys.maybe(*_KERNEL) or family.defaults.get("mamba_d_conv") or 4
    channels = inner + 2 * groups * state
    return RecurrentShape(
        kind=LayerKind.MAMBA2,
        conv_dim=channels,
        conv_kernel=kernel,
        state_elements=inner * state,
        matrices=hidden * (inner + channels + heads) + channels * kernel + inner * hidden,
    )


def _gated_delta(keys: ConfigKeys, family: Family, hidden: int) -> RecurrentShape:
    """Gated DeltaNet (Qwen3-Next, Qwen3.5): one key x value matrix a value head."""
    value_heads = keys.integer("linear_num_value_heads")
    key_dim, value_dim = keys.integer("linear_key_head_dim"), keys.integer("linear_value_head_dim")
    keys_wide = keys.integer("linear_num_key_heads") * key_dim
    values_wide = value_heads * value_dim
    kernel = keys.maybe("linear_conv_kernel_dim") or family.defaults.get("linear_conv_kernel_dim") or 4
    channels = 2 * keys_wide + values_wide
    return RecurrentShape(
        kind=LayerKind.DELTA,
        conv_dim=channels,
        conv_kernel=kernel,
        state_elements=value_heads * key_dim * value_dim,
        matrices=hidden * (channels + values_wide + 2 * value_heads) + channels * kernel + values_wide * hidden,
    )


def _kimi_delta(keys: ConfigKeys, family: Family, hidden: int) -> RecurrentShape:
    """Kimi delta attention: a decay for every channel, made by a low-rank pair (by one matrix in Ling)."""
    own = keys.section("linear_attn_config") or keys
    heads = own.maybe("num_heads", "linear_num_heads") or keys.integer("num_attention_heads")
    dim = own.maybe("linear_head_dim") or own.maybe("head_dim") or 128
    if own is keys and not keys.states("linear_head_dim"):
        dim = keys.maybe("v_head_dim") or dim
    kernel = own.maybe("short_conv_kernel_size", "linear_conv_kernel_dim") or 4
    keys.acknowledge("linear_conv_kernel_dim", "short_conv_kernel_size")
    wide = heads * dim
    whole_gates = family.name == "bailing_hybrid"
    gates = 2 * hidden * wide if whole_gates else 2 * (hidden * dim + dim * wide)
    return RecurrentShape(
        kind=LayerKind.LINEAR,
        conv_dim=3 * wide,
        conv_kernel=kernel,
        state_elements=heads * dim * dim,
        matrices=4 * hidden * wide + 3 * wide * kernel + gates + hidden * heads,
    )


def _short_convolution(keys: ConfigKeys, family: Family, hidden: int) -> RecurrentShape:
    """LFM2: a gated convolution and nothing else."""
    keys.acknowledge("conv_dim", "conv_dim_out", "block_dim", "num_heads")
    kernel = keys.maybe("conv_L_cache") or family.defaults.get("conv_L_cache") or 3
    return RecurrentShape(
        kind=LayerKind.LINEAR,
        conv_dim=hidden,
        conv_kernel=kernel,
        state_elements=0,
        matrices=4 * hidden * hidden + hidden * kernel,
    )


def _gated_linear_unit(keys: ConfigKeys, hidden: int) -> RecurrentShape:
    """RecurrentGemma's RG-LRU: one element a channel, gates in blocks of a head."""
    width = keys.maybe("lru_width") or hidden
    heads = keys.integer("num_attention_heads")
    kernel = keys.maybe(*_KERNEL) or 4
    return RecurrentShape(
        kind=LayerKind.LINEAR,
        conv_dim=width,
        conv_kernel=kernel,
        state_elements=width,
        matrices=3 * hidden * width + width * kernel + 2 * width * width // max(1, heads),
    )


def _lightning(keys: ConfigKeys, family: Family, hidden: int) -> RecurrentShape:
    """Lightning attention (MiniMax-01, M1, Ring-linear): one key x value matrix a head, with an output gate."""
    if not family.name.startswith(("minimax", "bailing")):
        keys.assume("The linear attention of this architecture is not known here: taken for lightning attention.")
    heads = keys.integer("num_attention_heads", "n_head", "n_heads")
    dim = keys.maybe("head_dim") or hidden // max(1, heads)
    if not dim:
        raise UnreadableModel(f"{keys.source}: linear attention with {heads} heads of no elements.")
    wide = heads * dim
    return RecurrentShape(
        kind=LayerKind.LINEAR,
        conv_dim=0,
        conv_kernel=0,
        state_elements=heads * dim * dim,
        matrices=5 * hidden * wide,
    )
