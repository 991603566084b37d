"""The pool of a model under a server's settings: of free memory, or of the figure its start log printed."""

from __future__ import annotations

from widelane.errors import UsageError
from widelane.facts.model import ModelFacts
from widelane.plan.pool.llama_cpp import llama_cpp_pool, llama_cpp_pool_of
from widelane.plan.pool.ollama import ollama_pool_logged, ollama_pool_of
from widelane.plan.pool.pool import Pool
from widelane.plan.pool.settings import PoolSettings
from widelane.plan.pool.sglang import sglang_pool_logged, sglang_pool_of
from widelane.plan.pool.vllm_model import vllm_pool_logged, vllm_pool_of

POOL_ENGINES = ("vllm", "llama.cpp", "sglang", "ollama")
"""Engines whose pool can be planned."""


def pool_of(facts: ModelFacts, settings: PoolSettings, free_bytes: float) -> Pool:
    """The pool that the engine makes of `free_bytes` (all devices together, weights and working memory taken off).

    Raises:
        UsageError: an engine whose pool is not known, or a cache type that it does not have.
    """
    match settings.engine:
        case "vllm":
            return vllm_pool_of(facts, settings, free_bytes)
        case "llama.cpp":
            return llama_cpp_pool_of(facts, settings, free_bytes)
        case "sglang":
            return sglang_pool_of(facts, settings, free_bytes)
        case "ollama":
            return ollama_pool_of(facts, settings, free_bytes)
    raise _unknown(settings.engine)


def pool_from_log_line(facts: ModelFacts, settings: PoolSettings, tokens: int) -> Pool:
    """The pool of a running server whose start log says that it holds `tokens` tokens.

    vLLM "GPU KV cache size" (old or new meaning by `settings.version`), llama.cpp the cells of all slots together,
    SGLang `max_total_num_tokens`. A rounded figure gives the smallest pool that prints at least that.

    Raises:
        UsageError: the figure is not positive, or the engine's pool is not known.
    """
    if tokens < 1:
        raise UsageError(f"a KV pool of {tokens} tokens holds nothing: pass the figure that the start log shows.")
    match settings.engine:
        case "vllm":
            return vllm_pool_logged(facts, settings, tokens)
        case "llama.cpp":
            return llama_cpp_pool(facts, settings, tokens)
        case "sglang":
            return sglang_pool_logged(facts, settings, tokens)
        case "ollama":
            return ollama_pool_logged(facts, settings, tokens)
    raise _unknown(settings.engine)


def _unknown(engine: str) -> UsageError:
    return UsageError(f"the KV pool of {engine} is not known here: choose one of {', '.join(POOL_ENGINES)}.")
