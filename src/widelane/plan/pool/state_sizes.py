"""Bytes of one recurrent layer's state, and of one token's cache, under the types a server is set to."""

from __future__ import annotations

from widelane.facts.model import AttentionLayers, RecurrentLayers
from widelane.plan.pool.dtypes import AUTO, dtype_name, element_bytes
from widelane.plan.pool.settings import PoolSettings


def state_element_bytes(layers: RecurrentLayers, settings: PoolSettings) -> float:
    """Bytes of one element of the recurrent (SSM) state in vLLM and SGLang.

    vLLM's `--mamba-ssm-cache-dtype auto` takes what the checkpoint names (`mamba_ssm_dtype`: float32 for Qwen3.5, 3.6
    and Nemotron-H), and only then `--mamba-cache-dtype`, which is otherwise the convolution's alone.
    """
    for dtype in (settings.state_dtype, layers.state_dtype, settings.conv_dtype):
        if dtype is not None and dtype_name(dtype) != AUTO:
            return element_bytes(dtype)
    # SGLang keeps float32 where nothing names a type (SGLANG_MAMBA_SSM_DTYPE).
    return element_bytes("f32" if settings.engine == "sglang" else settings.model_dtype)


def conv_element_bytes(settings: PoolSettings) -> float:
    """Bytes of one element of the convolution's state: the model's own type unless it is set."""
    dtype = settings.conv_dtype
    return element_bytes(settings.model_dtype if dtype is None or dtype_name(dtype) == AUTO else dtype)


def state_layer_bytes(layers: RecurrentLayers, settings: PoolSettings, *, draft_depth: int = 0) -> float:
    """Bytes of one layer's state of one sequence; drafted tokens add a column of the convolution each."""
    columns = max(0, layers.conv_kernel - 1 + draft_depth) if layers.conv_dim else 0
    conv = layers.conv_dim * columns * conv_element_bytes(settings)
    return conv + layers.state_elements * state_element_bytes(layers, settings)


def key_element_bytes(settings: PoolSettings, auto: str) -> float:
    """Bytes of a cached element of K; `auto` is the type it stands for here."""
    return element_bytes(auto if dtype_name(settings.kv_dtype) == AUTO else settings.kv_dtype)


def value_element_bytes(settings: PoolSettings, auto: str) -> float:
    """Bytes of a cached element of V: as K unless it is set apart."""
    if settings.value_dtype is None:
        return key_element_bytes(settings, auto)
    return element_bytes(auto if dtype_name(settings.value_dtype) == AUTO else settings.value_dtype)


def token_bytes(
    kv_heads: int, key_dim: int, value_dim: int, settings: PoolSettings, *, auto: str, devices: int = 1
) -> float:
    """Cache bytes of one token in one attention layer, on one of the cards that hold it.

    Heads are dealt out over the cards, at least one to each; a latent row (MLA) has one head, which every card keeps.
    """
    key = key_dim * key_element_bytes(settings, auto)
    return -(-kv_heads // devices) * (key + value_dim * value_element_bytes(settings, auto))


def cached_token_bytes(layers: AttentionLayers, settings: PoolSettings, *, auto: str, devices: int = 1) -> float:
    """Cache bytes of one token in all layers of this kind that keep a cache of their own, on one card."""
    one = token_bytes(layers.kv_heads, layers.key_dim, layers.value_dim, settings, auto=auto, devices=devices)
    return max(0, layers.count - layers.sharing) * one
