"""What the memory of a device goes to before there is any sequence, and what is left for the pool.

    vLLM      installed * utilization - weights - peak of a step - graphs          utilization 0.9, from 0.21 on 0.92
    SGLang    installed * static share - weights - driver's context                 share from its own rule for the card
    llama.cpp installed - weights - compute buffers - what `--fit` leaves free       also Ollama

The working memory of a step is an estimate (no engine states it before it has run); everything else follows from sizes
and settings. On a machine with one memory for all, room is left for the system.
"""

from __future__ import annotations

from dataclasses import dataclass

from widelane.facts.devices.device import Device, DeviceKind
from widelane.facts.model import ModelFacts
from widelane.figures import Figure, Origin
from widelane.plan.launch.versions import version_of
from widelane.plan.pool.llama_cpp import AUTOMATIC_SLOTS
from widelane.plan.pool.settings import PoolSettings
from widelane.plan.pool.vllm import STEP_TOKENS
from widelane.plan.working_memory import (
    CONTEXT_BYTES,
    FIT_MARGIN_BYTES,
    SYSTEM_BYTES,
    graph_bytes,
    llama_cpp_buffer_bytes,
    sglang_reserved_bytes,
    step_peak_bytes,
)

VLLM_UTILIZATION = 0.9
"""`--gpu-memory-utilization` when it is not set, up to 0.20."""
VLLM_UTILIZATION_WITH_GRAPHS = 0.92
"""The same from 0.21 on, which counts CUDA graphs in (vllm/config/cache.py)."""
GRAPHS_COUNTED = (0, 21)
_LARGE_CARD_BYTES = 70 * 2**30
_SMALL_STEP_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """One use of memory, with where its size comes from."""

    name: str
    bytes: int
    origin: Origin
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """Memory of the device (all cards together) before any sequence.

    Attributes:
        total_bytes: what there is.
        uses: what is taken below the pool: weights, draft head or model, working memory.
        reserve: what the server leaves alone: for the system, the driver, its own peaks.
        utilization: share of the memory that the server may use, 0 … 1.
    """

    total_bytes: int
    uses: tuple[MemoryUse, ...]
    reserve: MemoryUse
    utilization: float

    @property
    def pool_bytes(self) -> int:
        """What is left for the pool, never below 0."""
        return max(0, self._left)

    @property
    def missing_bytes(self) -> int:
        """What is lacking before the first sequence, 0 when the model loads."""
        return max(0, -self._left)

    @property
    def _left(self) -> int:
        return self.total_bytes - self.reserve.bytes - sum(use.bytes for use in self.uses)


def memory_budget(
    facts: ModelFacts,
    device: Device,
    settings: PoolSettings,
    *,
    utilization: float | None = None,
    memory_bytes: int | None = None,
) -> MemoryBudget:
    """What weights and work take of the device's memory, and what is left for the pool.

    Args:
        utilization: share the server may use (`--gpu-memory-utilization`, `--mem-fraction-static`); None is the
            engine's default.
        memory_bytes: memory that the server may use, in place of the device's own; then nothing is held back.
    """
    if memory_bytes is not None:
        total, share = memory_bytes, 1.0 if utilization is None else utilization
        reserve = MemoryUse(
            name="reserve", bytes=round(total * (1 - share)), origin=Origin.READ, reason="outside the stated memory"
        )
    else:
        total = device.usable_memory_bytes or device.memory_bytes
        share = _share(device, settings, total, utilization)
        reserve = _reserve(device, settings, total, share, stated=utilization is not None)
    return MemoryBudget(
        total_bytes=total,
        uses=(*_weights(facts, settings), *_working(facts, settings, total)),
        reserve=reserve,
        utilization=1 - reserve.bytes / total if total else 0.0,
    )


def default_utilization(settings: PoolSettings, memory_bytes: int) -> float | None:
    """The share that the engine takes when it is not told; None where it takes what it needs (llama.cpp, Ollama)."""
    if settings.engine == "vllm":
        return VLLM_UTILIZATION_WITH_GRAPHS if _counts_graphs(settings) else VLLM_UTILIZATION
    if settings.engine == "sglang":
        one = memory_bytes / settings.devices
        reserved = sglang_reserved_bytes(one, settings.devices, drafting=settings.draft_depth > 0)
        return max(0.0, 1 - reserved / one) if one else 0.0
    return None


def default_sequences(settings: PoolSettings, memory_bytes: int) -> int:
    """vLLM's `--max-num-seqs` when it is not set: 1024 on a card from 70 GiB, 256 below, 128 on a CPU."""
    if settings.on_cpu:
        return 128
    return 1024 if memory_bytes / settings.devices >= _LARGE_CARD_BYTES else 256


def default_step_tokens(settings: PoolSettings, memory_bytes: int) -> int:
    """vLLM's `--max-num-batched-tokens` when it is not set: 8192 on a card from 70 GiB, 2048 on a smaller one."""
    return STEP_TOKENS if memory_bytes / settings.devices >= _LARGE_CARD_BYTES else _SMALL_STEP_TOKENS


def _share(device: Device, settings: PoolSettings, total: int, stated: float | None) -> float:
    if stated is not None:
        return stated
    share = default_utilization(settings, total)
    if share is not None:
        return share
    kept = FIT_MARGIN_BYTES * settings.devices + _system_bytes(device)
    return max(0.0, 1 - kept / total) if total else 0.0


def _system_bytes(device: Device) -> int:
    """Room for the system and other programs where they share the memory and nothing else keeps it free."""
    if device.kind is DeviceKind.GPU:
        return 0
    # What the driver keeps from programs (Apple's limit on wired memory) is such room already.
    usable = device.usable_memory_bytes or device.memory_bytes
    return max(0, SYSTEM_BYTES - (device.memory_bytes - usable))


def _reserve(device: Device, settings: PoolSettings, total: int, share: float, *, stated: bool) -> MemoryUse:
    """What the server leaves alone, and why."""
    size = round(total * (1 - share))
    if settings.engine in ("vllm", "sglang"):
        flag = "--gpu-memory-utilization" if settings.engine == "vllm" else "--mem-fraction-static"
        whose = "as set" if stated else "the engine's default"
        reason = f"{flag} {share:.3g} ({whose})"
        if settings.engine == "sglang":
            reason += "; prompts are computed and graphs kept in it"
    else:
        reason = "what the engine leaves free on a card"
        if _system_bytes(device):
            reason += ", and room for the system on the same memory"
    return MemoryUse(name="reserve", bytes=size, origin=Origin.READ if stated else Origin.ASSUMED, reason=reason)


def _weights(facts: ModelFacts, settings: PoolSettings) -> list[MemoryUse]:
    """Weights as they are loaded: the draft head only where it is used."""
    weights = facts.weights
    uses = [
        MemoryUse(
            name="weights",
            bytes=weights.total_bytes - weights.draft_head_bytes,
            origin=weights.origin,
            reason=f"the checkpoint in {weights.quant}",
        )
    ]
    if settings.draft_depth and settings.drafter is None and weights.draft_head_bytes:
        uses.append(
            MemoryUse(
                name="draft head",
                bytes=weights.draft_head_bytes,
                origin=weights.origin,
                reason="the layers that draft, loaded only with speculation",
            )
        )
    if settings.draft_depth and settings.drafter is not None:
        drafter = settings.drafter.weights
        uses.append(
            MemoryUse(
                name="draft model",
                bytes=drafter.total_bytes,
                origin=drafter.origin,
                reason=f"{settings.drafter.name} in {drafter.quant}",
            )
        )
    return uses


def _working(facts: ModelFacts, settings: PoolSettings, total: int) -> list[MemoryUse]:
    """Memory that steps need, as estimated; what an engine takes out of its reserve is not counted twice."""
    cards = settings.devices
    if settings.engine == "sglang":
        return [_use("driver context", CONTEXT_BYTES * cards, "the driver's own memory on each card")]
    if settings.engine == "vllm":
        sequences = settings.slots or default_sequences(settings, total)
        tokens = settings.batched_tokens or default_step_tokens(settings, total)
        peak = step_peak_bytes(facts, tokens=tokens, sequences=sequences)
        uses = [
            _use(
                "activations",
                peak * cards,
                f"peak of a step of {tokens:,} prompt tokens, {sequences} requests sampled",
            ),
        ]
        if not settings.on_cpu:
            uses.append(_use("driver context", CONTEXT_BYTES * cards, "the driver's own memory on each card"))
        if not settings.on_cpu and _counts_graphs(settings):
            uses.append(_use("graphs", graph_bytes(facts) * cards, "CUDA graphs, within the utilization from 0.21 on"))
        return uses
    slots = settings.slots or AUTOMATIC_SLOTS
    buffer = llama_cpp_buffer_bytes(facts, micro_batch=settings.micro_batch_tokens, slots=slots)
    return [_use("compute buffers", buffer * cards, f"micro batches of {settings.micro_batch_tokens} tokens")]


def _counts_graphs(settings: PoolSettings) -> bool:
    numbers = version_of(settings.version)
    return numbers is None or numbers >= GRAPHS_COUNTED


def _use(name: str, size: int, reason: str) -> MemoryUse:
    return MemoryUse(name=name, bytes=size, origin=Origin.ASSUMED, reason=f"{reason} (estimate)")


def use_figure(use: MemoryUse) -> Figure:
    """A use as a figure in bytes."""
    return Figure(use.bytes, "bytes", use.origin, reason=use.reason)
