"""What every engine adapter offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from widelane.engines.hints import NO_HINTS, Hints
from widelane.engines.server_facts import ServerFacts

__all__ = ["NO_HINTS", "Engine", "Gauges", "Hints"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """The server's own counters at one moment; None where it does not tell.

    Gauges of a busy server lag (they move once a step): read several times and keep the highest.

    Attributes:
        running: sequences being decoded or prefilled.
        waiting: requests in the server's queue.
        kv_usage: share of the KV pool in use, 0 to 1.
        preemptions_total: sequences thrown out of the pool and computed again, since the start.
        drafted_total, accepted_total: speculative tokens proposed and kept, since the start.
        drafts_total: how often something was drafted.
        accepted_per_position: kept tokens by their place in the draft, since the start.
        prefix_queries_total, prefix_hits_total: prompt tokens looked up in, and found in, the prefix cache.
        busy_per_decode: sequences in the average step since the start (llama.cpp).
        output_tokens_total: tokens written since the start.
        reason: why nothing is told, None otherwise.
    """

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions_total: float | None = None
    drafted_total: float | None = None
    accepted_total: float | None = None
    drafts_total: float | None = None
    accepted_per_position: tuple[float, ...] = ()
    prefix_queries_total: float | None = None
    prefix_hits_total: float | None = None
    busy_per_decode: float | None = None
    output_tokens_total: float | None = None
    reason: str | None = None


class Engine(Protocol):
    """One kind of server behind one address."""

    @property
    def name(self) -> str:
        """`llama.cpp`, `vllm`, `sglang`, `ollama`, `lm-studio`, `mlx-lm`, … or `openai-compatible`."""
        ...

    async def facts(self, hints: Hints = NO_HINTS) -> ServerFacts:
        """All that can be read without generating a token.

        Raises:
            CallError: the server is gone.
            UsageError: the pasted launch line cannot be read.
        """
        ...

    async def gauges(self) -> Gauges:
        """The server's counters now.

        Raises:
            CallError: the server is gone.
        """
        ...

    def forced_text(self, text: str) -> Mapping[str, Any] | None:
        """Extra body fields that make the answer exactly `text`; None where the engine cannot."""
        ...

    def fixed_length(self, tokens: int) -> Mapping[str, Any]:
        """Extra body fields that keep a request writing up to `max_tokens` = `tokens`; empty where it cannot."""
        ...

    def no_prefix_cache(self) -> Mapping[str, Any]:
        """Extra body fields that keep a request off the prefix cache; empty where only a new prompt does."""
        ...

    def thinking_off(self) -> Mapping[str, Any]:
        """Extra body fields that ask a reasoning model to answer at once."""
        ...
