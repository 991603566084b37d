"""Ollama's cache: a llama.cpp server whose slots each have the whole `num_ctx`, and some models get one slot only.

It starts `llama-server` with `-np N -c num_ctx*N`, which splits. Sources: Ollama fb30760 (2026-08-21),
server/sched.go and envconfig.
"""

from __future__ import annotations

from dataclasses import replace

from widelane.facts.model import ModelFacts
from widelane.facts.model_family import ONE_SLOT_ARCHITECTURES
from widelane.plan.pool.llama_cpp import LlamaCppPool, llama_cpp_pool, llama_cpp_pool_of
from widelane.plan.pool.settings import PoolSettings

DEFAULT_SLOTS = 1
"""`OLLAMA_NUM_PARALLEL` when it is not set."""
_GIB = 2**30
_CONTEXT_BY_MEMORY = ((24 * _GIB, 4_096), (48 * _GIB, 32_768))
_LARGEST_CONTEXT = 262_144
_ONE_SLOT_MODEL_TYPES = ("qwen3_5", "qwen3_5_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_moe", "lfm2_moe")
"""The same architectures as a config.json names them; a GGUF's names are `ONE_SLOT_ARCHITECTURES`."""


def default_context_tokens(memory_bytes: int) -> int:
    """`num_ctx` when nothing is set: 4k below 24 GiB of graphics memory, 32k below 48 GiB, else 256k."""
    return next((tokens for limit, tokens in _CONTEXT_BY_MEMORY if memory_bytes < limit), _LARGEST_CONTEXT)


def one_slot_only(facts: ModelFacts) -> bool:
    """Whether Ollama runs this model one request at a time, whatever `OLLAMA_NUM_PARALLEL` says."""
    architecture = facts.architecture.lower().removesuffix("_text")
    return (
        architecture in ONE_SLOT_ARCHITECTURES
        or architecture in _ONE_SLOT_MODEL_TYPES
        or architecture.startswith("nemotron_h")
    )


def ollama_slots(facts: ModelFacts, settings: PoolSettings) -> int:
    """Places that Ollama really gives this model."""
    return 1 if one_slot_only(facts) else settings.slots or DEFAULT_SLOTS


def ollama_pool_of(facts: ModelFacts, settings: PoolSettings, free_bytes: float) -> LlamaCppPool:
    """The cache with `num_ctx` as long as the longest sequence, or as much of it as fits."""
    return llama_cpp_pool_of(facts, _started(facts, settings), free_bytes, server="ollama")


def ollama_pool_logged(facts: ModelFacts, settings: PoolSettings, tokens: int) -> LlamaCppPool:
    """The cache of so many tokens in all slots together."""
    return llama_cpp_pool(facts, _started(facts, settings), tokens, server="ollama")


def _started(facts: ModelFacts, settings: PoolSettings) -> PoolSettings:
    return replace(settings, slots=ollama_slots(facts, settings), unified=False)
