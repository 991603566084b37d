"""The engine's settings where nobody set them: what each engine does by itself.

    llama.cpp  4 slots in one shared pool that fails everybody when full; with `-np` a pool split over the slots;
               batches of 2,048 tokens; each slot keeps its last prompt
    Ollama     1 slot (`OLLAMA_NUM_PARALLEL`), a split context, 512 waiting requests
    vLLM       256 or 1,024 sequences and steps of 2,048 or 8,192 tokens by the card's memory, recompute preemption,
               blocks shared by content, captured graphs
    SGLang     as many sequences as its pool's rule gives, prompts in steps of their own, prefixes shared token by token

Sources: notes beside each function of `plan/`; llama.cpp common.h `n_batch`; Ollama envconfig `OLLAMA_MAX_QUEUE`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from widelane.engines.server_facts import ServerFacts
from widelane.errors import UsageError
from widelane.facts.devices.device import DeviceKind
from widelane.plan.memory import default_sequences, default_step_tokens
from widelane.plan.outlook import Outlook
from widelane.plan.pool.llama_cpp import LlamaCppPool
from widelane.plan.pool.pool import Pool
from widelane.plan.pool.vllm import VllmPool
from widelane.plan.pool.vllm_layout import StateMode
from widelane.plan.pool.vllm_model import state_mode
from widelane.sim.config import BlockPool, EngineConfig, PoolPolicy, PrefixCache
from widelane.sim.graph_sizes import vllm_graph_sizes
from widelane.sim.measured_profile import MeasuredProfile
from widelane.sim.spec import SimSpec

LLAMA_CPP_BATCH = 2048
SGLANG_STEP_TOKENS = 8192
OLLAMA_QUEUE = 512
WIDEST = 256
"""Places of a measured server that neither told its own nor showed them: llama.cpp's most, and vLLM's on most cards."""
USUAL_CONTEXT = 32_768
"""Longest sequence of a measured server that did not tell it."""
_BLOCK_TOKENS = 16
_LLAMA_CPPS = ("llama.cpp", "ollama", "lm-studio", "ramalama")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Habits:
    """What depends on the engine alone."""

    policy: PoolPolicy
    prefix_cache: PrefixCache
    prefix_block_tokens: int
    step_tokens: int
    shares_steps: bool = True
    max_queue: int | None = None


def planned_config(outlook: Outlook, pool: Pool, spec: SimSpec, acceptance: tuple[float, ...]) -> EngineConfig:
    """The settings of a planned server.

    Args:
        acceptance: share of drafted tokens kept at each position.

    Raises:
        UsageError: what was asked for cannot be, such as more drafted tokens than acceptances.
    """
    habits = _planned_habits(outlook, pool)
    slots = _planned_slots(outlook, pool)
    depth = outlook.setup.draft_depth
    graphs: tuple[int, ...] = ()
    if pool.engine == "vllm" and outlook.request.device.kind is not DeviceKind.CPU:
        graphs = vllm_graph_sizes(slots, habits.step_tokens, draft_depth=depth)
    return EngineConfig(
        slots=slots,
        longest_tokens=pool.longest_tokens,
        pool=pool,
        policy=habits.policy,
        prefill_chunk_tokens=_with_room(habits.step_tokens, slots, depth),
        prefill_shares_steps=habits.shares_steps,
        prefix_cache=habits.prefix_cache,
        prefix_block_tokens=habits.prefix_block_tokens,
        draft_depth=depth,
        acceptance=acceptance[:depth],
        graph_sizes=graphs,
        noise=spec.noise,
        max_queue=habits.max_queue,
    )


def measured_config(profile: MeasuredProfile, spec: SimSpec) -> EngineConfig:
    """The settings of a measured server, as far as it told or showed them; drafts are in its figures already."""
    facts = profile.server.facts
    slots = spec.slots or measured_slots(profile) or WIDEST
    context = spec.context or _whole(facts.context_per_slot.number) or USUAL_CONTEXT
    habits = _habits(facts.engine, shared=facts.unified_pool.value is True)
    caches = facts.prefix_cache.value is not False
    batch = facts.extra.get("batch")
    step_tokens = _whole(batch.number) if batch else None
    return EngineConfig(
        slots=slots,
        longest_tokens=max(2, context),
        pool=_measured_pool(facts, habits),
        policy=habits.policy,
        prefill_chunk_tokens=_with_room(step_tokens or habits.step_tokens, slots, 0),
        prefill_shares_steps=habits.shares_steps,
        prefix_cache=habits.prefix_cache if caches else PrefixCache.NONE,
        prefix_block_tokens=habits.prefix_block_tokens,
        noise=spec.noise,
        max_queue=habits.max_queue,
    )


def measured_slots(profile: MeasuredProfile) -> int | None:
    """Places of a measured server: as it told, else the batch at which they limited it; None when neither is known."""
    told = _whole(profile.server.facts.slots.number)
    if told is not None or profile.limit != "slots":
        return told
    seen = [batch for level in profile.levels if (batch := _whole(level.decoding_together.number))]
    return max(seen, default=None)


def _planned_slots(outlook: Outlook, pool: Pool) -> int:
    settings, request = outlook.settings, outlook.request
    if pool.engine == "vllm":
        return settings.slots or default_sequences(settings, request.memory_bytes or request.device.memory_bytes)
    return min(settings.slots or WIDEST, pool.max_sequences or WIDEST)


def _planned_habits(outlook: Outlook, pool: Pool) -> _Habits:
    if pool.engine != "vllm":
        return _habits(pool.engine, shared=isinstance(pool, LlamaCppPool) and pool.shared)
    settings, request = outlook.settings, outlook.request
    model = outlook.setup.model
    # A hybrid model caches prefixes only where the version keeps states at block boundaries.
    caches = not model.is_hybrid or state_mode(model, settings) is not StateMode.NONE
    memory = request.memory_bytes or request.device.memory_bytes
    return _Habits(
        policy=PoolPolicy.RECOMPUTE,
        prefix_cache=PrefixCache.BLOCKS if caches else PrefixCache.NONE,
        prefix_block_tokens=_shared_block_tokens(pool),
        step_tokens=settings.batched_tokens or default_step_tokens(settings, memory),
    )


def _shared_block_tokens(pool: Pool) -> int:
    """Tokens after which every group of layers begins a new block: vLLM finds prefixes in multiples of that."""
    if not isinstance(pool, VllmPool):
        return pool.block_tokens or _BLOCK_TOKENS
    return math.lcm(*(groups.block_tokens for groups in pool.layout.groups))


def _habits(engine: str, *, shared: bool) -> _Habits:
    """Habits by the engine's name; one that is not known is taken for one of vLLM's kind."""
    if engine in _LLAMA_CPPS:
        return _Habits(
            policy=PoolPolicy.FAIL_ALL if shared else PoolPolicy.RESERVE,
            prefix_cache=PrefixCache.SLOTS,
            prefix_block_tokens=1,
            step_tokens=LLAMA_CPP_BATCH,
            max_queue=OLLAMA_QUEUE if engine == "ollama" else None,
        )
    sglang = engine == "sglang"
    return _Habits(
        policy=PoolPolicy.RECOMPUTE,
        prefix_cache=PrefixCache.BLOCKS,
        prefix_block_tokens=1 if sglang else _BLOCK_TOKENS,
        step_tokens=SGLANG_STEP_TOKENS,
        shares_steps=not sglang,
    )


def _measured_pool(facts: ServerFacts, habits: _Habits) -> BlockPool | None:
    """The pool as the server told its size; a split one has room for every slot, so there is nothing to share."""
    tokens = _whole(facts.pool_tokens.number)
    if tokens is None or habits.policy is PoolPolicy.RESERVE:
        return None
    each = habits.prefix_block_tokens
    if tokens < each:
        raise UsageError(f"The profile's server has a KV pool of {tokens} tokens, which holds nothing: sweep it again.")
    return BlockPool(capacity=tokens // each, block_tokens=each)


def _with_room(step_tokens: int, slots: int, draft_depth: int) -> int:
    """Tokens of a step, with room for a piece of a prompt beside all decoding slots: engines start no smaller."""
    return max(step_tokens, slots * (1 + draft_depth) + _BLOCK_TOKENS)


def _whole(number: float | None) -> int | None:
    return int(number) if number and number >= 1 else None
