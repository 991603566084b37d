"""What a plan is asked for: one model on one device under one engine, for a kind of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from widelane.facts.devices.device import Device
from widelane.facts.devices.measured_bandwidth import MeasuredBandwidth
from widelane.facts.model import ModelFacts
from widelane.plan.fit import MachineFit
from widelane.plan.footprint import Footprint, PastCall
from widelane.plan.report import Use

TYPICAL_TOKENS = {Use.INTERACTIVE: 8_192, Use.BATCH: 4_096, Use.AGENTS: 24_576}
"""Prompt and answer of a usual request together, when nothing is said (assumed)."""
MAX_TOKENS = {Use.INTERACTIVE: 32_768, Use.BATCH: 16_384, Use.AGENTS: 131_072}
"""The longest request to allow, when nothing is said; never more than the model's context (assumed)."""


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What is known and what is fixed; None leaves the choice to the plan.

    Attributes:
        weights_at: what the engine is to load, a path or `org/name`; None where the plan is made without the weights.
        engine_version: as the user names it (`0.20.0`, `b11549`); None is the newest known.
        typical: tokens that a usual request holds at its end, mean and spread.
        typical_stated, max_stated: whether the user said so, or it is the default of the use.
        max_tokens: longest request to allow.
        footprints: past requests, empty when none were given; they win over `typical`.
        memory_bytes: memory the server may use, in place of the device's own.
        kv_dtype, state_dtype, slots, draft_depth: fixed by the user.
        draft_model: file or name of a small model that drafts, as the user gave it; drafter: what it is.
        acceptance: share of drafted tokens kept at each position, of those whose predecessors were kept; empty when not
            known.
        served_tokens: longest request that the running server takes (`--max-model-len`), which vLLM's log line of the
            pool depends on; None is `max_tokens`.
        pool_tokens: KV pool of a running server as its start log tells it; pool_bytes: its memory. With either of them
            the plan is about that server as it runs, and no type is changed.
        fit: the two numbers of this very server, fitted to a sweep of it; None takes what is known of its like.
        measured: this machine's memory bandwidth, where it was measured.
        threads: compute threads on a CPU that is known (llama.cpp), None for the engine's default.
        tool_parser, reasoning_parser: named by the user; `none` for none.
        device_how: how the device was told (`--device`, NVML, …).
    """

    model: ModelFacts
    weights_at: str | None = None
    device: Device
    device_how: str = "named by the caller"
    engine: str
    engine_version: str | None = None
    use: Use
    typical: Footprint
    typical_stated: bool = True
    max_tokens: int
    max_stated: bool = True
    footprints: Sequence[PastCall] = ()
    memory_bytes: int | None = None
    kv_dtype: str | None = None
    state_dtype: str | None = None
    slots: int | None = None
    draft_depth: int | None = None
    draft_model: str | None = None
    drafter: ModelFacts | None = None
    acceptance: tuple[float, ...] = ()
    pool_tokens: int | None = None
    served_tokens: int | None = None
    pool_bytes: int | None = None
    measured: MeasuredBandwidth | None = None
    fit: MachineFit | None = None
    threads: int | None = None
    tool_parser: str | None = None
    reasoning_parser: str | None = None

    @cached_property  # a log may hold a million calls
    def typical_tokens(self) -> int:
        """Tokens of a usual request at its end: the mean of past ones where there are any."""
        if self.footprints:
            return max(1, round(sum(call.total_tokens for call in self.footprints) / len(self.footprints)))
        return max(1, round(self.typical.mean_tokens))

    @property
    def as_running(self) -> bool:
        """Whether the plan is about a server that runs already."""
        return self.pool_tokens is not None or self.pool_bytes is not None
