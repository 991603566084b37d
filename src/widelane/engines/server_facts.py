"""What is known of a running server, whatever its engine: one record that every adapter fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from widelane.figures import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What is known of a server; every figure says whether it was read or inferred.

    Attributes:
        engine: `llama.cpp`, `vllm`, `sglang`, `ollama`, `lm-studio`, `mlx-lm`, … or `openai-compatible`.
        slots: sequences decoded together (llama.cpp slots, vLLM max_num_seqs).
        context_per_slot: tokens one sequence may hold.
        pool_tokens: tokens the whole KV pool holds.
        unified_pool: True when all slots share one pool without preemption (llama.cpp's default).
        kv_dtype: of K and V; `K/V` where they differ.
        state_dtype: of the large recurrent state; None for a model that has none.
        speculation: False when off, the method's name, or True when no more is known than that it is on.
        reasoning_parser, tool_parser: its name, False when there is none, True when no more is known.
        weights_bytes: size of the weights as loaded.
        extra: further facts by name.
    """

    engine: str
    version: Figure
    model: Figure
    slots: Figure
    context_per_slot: Figure
    context_trained: Figure
    kv_dtype: Figure
    state_dtype: Figure
    pool_tokens: Figure
    unified_pool: Figure
    speculation: Figure
    prefix_cache: Figure
    queue_length: Figure
    reasoning_parser: Figure
    tool_parser: Figure
    weights_bytes: Figure
    parameters: Figure
    launch_command: Figure
    extra: Mapping[str, Figure] = field(default_factory=dict)
