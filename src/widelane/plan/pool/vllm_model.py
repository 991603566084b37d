"""A model's layers as vLLM's cache sees them, and the pool they make of some free memory.

Families with Mamba-2 layers keep a state for each block when prefixes are cached (mode `all`), the others the last one
at a block boundary (`align`). Hybrid models cache prefixes by default since 0.28 (off in 0.19, on in 0.28 and 0.32).
"""

from __future__ import annotations

from math import ceil

from widelane.facts.model import LayerKind, ModelFacts, RecurrentLayers
from widelane.plan.launch.versions import version_of
from widelane.plan.pool.dtypes import check_cache_dtype
from widelane.plan.pool.settings import PoolSettings
from widelane.plan.pool.state_sizes import state_layer_bytes, token_bytes
from widelane.plan.pool.vllm import STEP_TOKENS, VllmPool, vllm_pool_of_log_line
from widelane.plan.pool.vllm_layout import (
    BLOCK_TOKENS,
    CPU_BLOCK_TOKENS,
    CacheKind,
    CacheLayout,
    Keeps,
    StateMode,
    cache_layout,
)

HYBRID_PREFIX_CACHE = (0, 28)
"""First version known to cache prefixes of hybrid models unasked."""
_MAMBA_CHUNK_TOKENS, _MAMBA2_CHUNK_TOKENS, _NEMOTRON_CHUNK_TOKENS = 2048, 256, 128


def state_mode(facts: ModelFacts, settings: PoolSettings) -> StateMode:
    """Which recurrent states this version keeps of a sequence of this model."""
    if not facts.is_hybrid:
        return StateMode.NONE
    cached = settings.prefix_cache
    if cached is None:
        numbers = version_of(settings.version)
        cached = numbers is None or numbers >= HYBRID_PREFIX_CACHE
    if not cached:
        return StateMode.NONE
    every = all(layers.kind in (LayerKind.MAMBA, LayerKind.MAMBA2) for layers in facts.recurrent)
    return StateMode.ALL if every else StateMode.ALIGN


def state_chunk_tokens(facts: ModelFacts) -> int:
    """Tokens that the kernel of the recurrent layers reads at once; blocks are multiples of it in mode `all`.

    2048 for Mamba; for Mamba-2 the config's `chunk_size`, which is 128 for Nemotron-H and 256 elsewhere.
    """
    if any(layers.kind is LayerKind.MAMBA for layers in facts.recurrent):
        return _MAMBA_CHUNK_TOKENS
    nemotron = facts.architecture.lower().startswith("nemotron")
    return _NEMOTRON_CHUNK_TOKENS if nemotron else _MAMBA2_CHUNK_TOKENS


def cache_kinds(facts: ModelFacts, settings: PoolSettings) -> list[CacheKind]:
    """The kinds of layers on one card: the model's, with its draft head's among them, then a separate drafter's."""
    depth = settings.draft_depth
    own = _attention(facts, settings, extra=facts.draft_layers if depth and settings.drafter is None else 0)
    states = [_state(layers, settings, depth) for layers in facts.recurrent]
    if settings.drafter is None or not depth:
        return _kinds(own, settings) + states
    drafting = _attention(settings.drafter, settings, extra=0)
    for shape, layers in [*drafting.items()]:
        if shape in own:
            own[shape] += layers
            del drafting[shape]
    return _kinds(own, settings) + states + _kinds(drafting, settings)


def vllm_layout_of(facts: ModelFacts, settings: PoolSettings) -> CacheLayout:
    """How vLLM divides this model's cache.

    Raises:
        UsageError: vLLM has no cache of the type that is set.
    """
    check_cache_dtype("vllm", settings.kv_dtype)
    return cache_layout(
        cache_kinds(facts, settings),
        mode=state_mode(facts, settings),
        draft_depth=settings.draft_depth,
        longest_tokens=settings.longest_tokens,
        align=CPU_BLOCK_TOKENS if settings.on_cpu else BLOCK_TOKENS,
        chunk=state_chunk_tokens(facts),
    )


def vllm_pool_of(facts: ModelFacts, settings: PoolSettings, free_bytes: float) -> VllmPool:
    """The pool that vLLM makes of `free_bytes` (all cards together)."""
    layout = vllm_layout_of(facts, settings)
    return VllmPool(
        layout=layout,
        pool_blocks=layout.blocks_in(free_bytes / settings.devices),
        length_limit=settings.longest_tokens,
        batched_tokens=settings.batched_tokens or STEP_TOKENS,
        version=settings.version,
        devices=settings.devices,
    )


def vllm_pool_logged(facts: ModelFacts, settings: PoolSettings, tokens: int) -> VllmPool:
    """The pool whose start log shows this figure."""
    return vllm_pool_of_log_line(
        vllm_layout_of(facts, settings),
        tokens,
        version=settings.version,
        longest_tokens=settings.longest_tokens,
        batched_tokens=settings.batched_tokens or STEP_TOKENS,
        devices=settings.devices,
    )


_Shape = tuple[int, int, int, int]
"""KV heads, key and value dimension, window (0: none)."""


def _attention(facts: ModelFacts, settings: PoolSettings, *, extra: int) -> dict[_Shape, int]:
    """Layers by shape; a draft head's are shaped like the model's first that keep every token."""
    counts: dict[_Shape, int] = {}
    ordered = sorted(facts.attention, key=lambda layers: layers.window is not None)
    for index, layers in enumerate(ordered):
        keeping = layers.count - layers.sharing + (extra if index == 0 else 0)
        shape = (layers.kv_heads, layers.key_dim, layers.value_dim, layers.window or 0)
        if keeping > 0:
            counts[shape] = counts.get(shape, 0) + keeping
    return counts


def _kinds(shapes: dict[_Shape, int], settings: PoolSettings) -> list[CacheKind]:
    return [_kind(shape, layers, settings) for shape, layers in shapes.items()]


def _kind(shape: _Shape, layers: int, settings: PoolSettings) -> CacheKind:
    heads, key_dim, value_dim, window = shape
    return CacheKind(
        keeps=Keeps.WINDOW if window else Keeps.WHOLE,
        layers=layers,
        token_bytes=token_bytes(
            heads, key_dim, value_dim, settings, auto=settings.model_dtype, devices=settings.devices
        ),
        window=window,
    )


def _state(layers: RecurrentLayers, settings: PoolSettings, depth: int) -> CacheKind:
    one_card = ceil(state_layer_bytes(layers, settings, draft_depth=depth) / settings.devices)
    return CacheKind(keeps=Keeps.STATE, layers=layers.count, state_bytes=one_card)
