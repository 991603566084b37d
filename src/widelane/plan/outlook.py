"""One way to run the model, and what it would give: pool, lanes, step times, rates.

A plan is the comparison of such outlooks: the engine's defaults, one lever at a time, and the recommended whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from widelane.facts.devices.device import DeviceKind
from widelane.facts.model import ModelFacts
from widelane.plan.concurrency import MOST_LANES, RISK, LanesPlan, plan_lanes
from widelane.plan.drafting import drafter_of, with_drafter
from widelane.plan.memory import MemoryBudget, memory_budget
from widelane.plan.pool.dtypes import AUTO, dtype_name, element_bytes
from widelane.plan.pool.llama_cpp import LlamaCppPool
from widelane.plan.pool.make import pool_from_log_line, pool_of
from widelane.plan.pool.pool import Pool
from widelane.plan.pool.settings import PoolSettings
from widelane.plan.pool.state_sizes import conv_element_bytes, state_element_bytes
from widelane.plan.rates import ExpectedRates, rates_for
from widelane.plan.request import PlanRequest
from widelane.plan.speculation import expected_tokens
from widelane.plan.step_cost import cost_of
from widelane.plan.step_time import StepCost, step_seconds

RISK_WHERE_ALL_FAIL = 0.001
"""Chance of a full pool that is taken where it fails every running call (llama.cpp) rather than delays one."""
_COMPARED = ("kv_dtype", "state_dtype", "draft_depth", "slots", "unified")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How the server is set.

    Attributes:
        model: with the weights in the format that is run.
        kv_dtype, state_dtype: `auto` is the engine's default.
        draft_depth: tokens drafted a step, 0 for none.
        slots: places, None for the engine's default.
        unified: llama.cpp: slots share one pool; None follows its own rule.
    """

    model: ModelFacts
    kv_dtype: str = AUTO
    state_dtype: str = AUTO
    draft_depth: int = 0
    slots: int | None = None
    unified: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What one setup would give on the request's machine."""

    request: PlanRequest
    setup: Setup
    seen: dict[tuple[object, ...], Outlook] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def settings(self) -> PoolSettings:
        """The setup as the pools take it."""
        request, setup = self.request, self.setup
        return PoolSettings(
            engine=request.engine,
            version=request.engine_version,
            longest_tokens=max(request.max_tokens, request.served_tokens or 0),
            slots=setup.slots,
            kv_dtype=setup.kv_dtype,
            state_dtype=setup.state_dtype,
            draft_depth=setup.draft_depth,
            drafter=request.drafter if setup.draft_depth else None,
            devices=request.device.count,
            on_cpu=request.device.kind is DeviceKind.CPU,
            unified=setup.unified,
        )

    @cached_property
    def budget(self) -> MemoryBudget:
        """Where the memory goes before there is any sequence."""
        request = self.request
        return memory_budget(self.setup.model, request.device, self.settings, memory_bytes=request.memory_bytes)

    @cached_property
    def pool(self) -> Pool:
        """The KV pool: of the free memory, or as the request states it; a change keeps the memory of the stated one."""
        request, model = self.request, self.setup.model
        if request.pool_tokens is None:
            free = self.budget.pool_bytes if request.pool_bytes is None else request.pool_bytes
            return pool_of(model, self.settings, free)
        stated = as_stated(request)
        if self.setup == stated.setup:
            return pool_from_log_line(model, self.settings, request.pool_tokens)
        return pool_of(model, self.settings, stated.pool.bytes)

    @cached_property
    def cost(self) -> StepCost:
        """What a step moves and computes with these types."""
        settings = self.settings
        recurrent = self.setup.model.recurrent
        wide = self.request.engine in ("llama.cpp", "ollama")
        state = 4.0 if wide or not recurrent else state_element_bytes(recurrent[0], settings)
        cost = cost_of(
            self.setup.model,
            key_bytes_per_element=2.0 if dtype_name(settings.kv_dtype) == AUTO else element_bytes(settings.kv_dtype),
            state_bytes_per_element=state,
            conv_bytes_per_element=4.0 if wide else conv_element_bytes(settings),
        )
        return with_drafter(cost, self.request, drafter_of(self.request))

    @cached_property
    def expected(self) -> ExpectedRates:
        """How fast the machine does it, and where that is known from."""
        return rates_for(self.request.device, self.request.engine, self.cost, fit=self.request.fit)

    @cached_property
    def lanes(self) -> LanesPlan:
        """The most calls at once that keep the chance of a full pool small: one in a hundred, or a thousand."""
        request, pool = self.request, self.pool
        held = pool.holds(request.typical_tokens)
        plan = plan_lanes(
            request.footprints or request.typical,
            need=pool.need,
            pool=pool.capacity,
            max_tokens=request.max_tokens,
            most=_most_sequences(pool, request.typical_tokens),
            risk=RISK_WHERE_ALL_FAIL if isinstance(pool, LlamaCppPool) and pool.shared else RISK,
            total_tok_s=self.tok_s,
        )
        # Where lengths are cut off at the longest allowed, their mean is below the typical one that is stated.
        return plan if plan.lanes <= held else replace(plan, lanes=held, in_step=held)

    def step_s(self, batch: int) -> float:
        """Seconds of a step of `batch` calls that hold the typical context, drafts checked where the setup drafts."""
        return step_seconds(
            self.cost,
            self.expected.rates,
            batch=batch,
            context=self.request.typical_tokens,
            draft_depth=self.setup.draft_depth,
        )

    def tok_s(self, batch: int) -> float:
        """Output tokens/s of `batch` calls together."""
        depth = self.setup.draft_depth
        each = expected_tokens(drafter_of(self.request).acceptance, depth) if depth else 1.0
        return batch * each / self.step_s(batch)

    def but(self, **changes: object) -> Outlook:
        """The same request with some of the setup changed; each setup is worked out once."""
        setup = replace(self.setup, **changes)  # type: ignore[arg-type]
        key = (id(setup.model), *(getattr(setup, name) for name in _COMPARED))
        if key not in self.seen:
            self.seen[key] = Outlook(request=self.request, setup=setup, seen=self.seen)
        return self.seen[key]


def _most_sequences(pool: Pool, typical_tokens: int) -> int:
    """Calls that the server takes at once whatever they hold: none where a usual one is too long for it."""
    if typical_tokens > pool.longest_tokens:
        return 0
    return MOST_LANES if pool.max_sequences is None else pool.max_sequences


def as_stated(request: PlanRequest) -> Outlook:
    """The engine left alone, but for what the user fixed."""
    return Outlook(
        request=request,
        setup=Setup(
            model=request.model,
            kv_dtype=request.kv_dtype or AUTO,
            state_dtype=request.state_dtype or AUTO,
            slots=request.slots,
            draft_depth=request.draft_depth or 0,
        ),
    )
