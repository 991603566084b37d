"""A simulated server with round costs, for tests: a step takes 100 ms whatever runs, a prompt token 1 ms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from widelane.sim.chat_template import ChatTemplate
from widelane.sim.config import EngineConfig, PoolPolicy, PrefixCache
from widelane.sim.cost_model import PromptChunk, StepLine
from widelane.sim.server import SimServer
from widelane.sim.settings import Habits, ServerSettings

STEP_S = 0.1
PROMPT_TOKEN_S = 0.001


class RoundCosts:
    """100 ms a step, and 1 ms more for each prompt token read in it."""

    def decode_line(self, batch: int, context_tokens: float, draft_depth: int) -> StepLine:
        return StepLine(STEP_S, 0.0)

    def mixed_s(self, chunks: Sequence[PromptChunk], batch: int, context_tokens: float, draft_depth: int) -> float:
        return STEP_S + PROMPT_TOKEN_S * sum(chunk.tokens for chunk in chunks)


def small_server(
    engine: str = "vllm",
    *,
    slots: int = 4,
    context: int = 4096,
    thinks: bool = True,
    habits: Habits | None = None,
    **more: Any,
) -> SimServer:
    """A server of this engine; `more` goes to SimServer."""
    llama = engine == "llama.cpp"
    config = EngineConfig(
        slots=slots,
        longest_tokens=context,
        policy=PoolPolicy.RESERVE if llama else PoolPolicy.RECOMPUTE,
        prefix_cache=PrefixCache.SLOTS if llama else PrefixCache.BLOCKS,
        prefix_block_tokens=1 if llama else 16,
    )
    settings = ServerSettings(
        engine=engine,
        model="Qwen/Qwen3.6-27B",
        template=ChatTemplate(thinks=thinks, xml_calls=True),
        slots=slots,
        context_tokens=context,
        trained_tokens=32768,
        pool_tokens=slots * context,
        pool_blocks=slots * context // 16,
        block_tokens=16,
        kv_dtype="q8_0" if llama else "fp8",
        state_dtype=None if llama else "float16",
    )
    return SimServer(config, RoundCosts(), replace(settings, habits=habits or Habits()), **more)
