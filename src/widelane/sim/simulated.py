"""From what a person named to what the engine runs: settings, step costs, and what the server would say of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from widelane.engines.server_facts import ServerFacts
from widelane.errors import UsageError
from widelane.facts.devices.device import Device
from widelane.facts.devices.table import find_device
from widelane.facts.find_model import find_model
from widelane.facts.model import ModelFacts
from widelane.plan.drafting import drafter_of
from widelane.plan.footprint import Footprint
from widelane.plan.make import longest_to_allow
from widelane.plan.outlook import Outlook, as_stated
from widelane.plan.pool.llama_cpp import llama_cpp_pool, llama_cpp_pool_of, shares_pool, slot_count
from widelane.plan.pool.ollama import default_context_tokens
from widelane.plan.pool.pool import Pool
from widelane.plan.report import Use
from widelane.plan.request import PlanRequest
from widelane.sim.config import EngineConfig
from widelane.sim.cost_model import CostModel
from widelane.sim.costs import plan_costs
from widelane.sim.engine_defaults import USUAL_CONTEXT, measured_config, measured_slots, planned_config
from widelane.sim.measured_costs import measured_costs
from widelane.sim.measured_profile import MeasuredProfile
from widelane.sim.spec import PlannedServer, SimSpec

LoadProfile = Callable[[Path], MeasuredProfile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a planned server is made of: for its fact endpoints."""

    outlook: Outlook
    pool: Pool

    @property
    def model(self) -> ModelFacts:
        """The model it runs."""
        return self.outlook.setup.model


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A server to simulate.

    Attributes:
        engine: `llama.cpp`, `vllm`, …
        model_name: as the server calls it.
        config, cost: for `SimEngine`.
        planned: its model, types and pool, None for a measured server.
        measured: what the measured server told, None for a planned one.
        words: where the step times come from.
    """

    spec: SimSpec
    engine: str
    model_name: str
    config: EngineConfig
    cost: CostModel
    planned: Planned | None = None
    measured: ServerFacts | None = None
    words: str


def simulated(spec: SimSpec, *, load_profile: LoadProfile, hub_dirs: Sequence[Path] = ()) -> Simulated:
    """The server that a spec names.

    Args:
        load_profile: reads a profile's file (`measure.profile.load_profile`).
        hub_dirs: folders in which models are looked for, as in `find_model`.

    Raises:
        UsageError: the device, the model or the profile is not known, or the model does not fit.
    """
    if not isinstance(spec.source, PlannedServer):
        return of_profile(load_profile(spec.source.path), spec)
    weights = None if spec.weights_gb is None else spec.weights_gb * 1e9
    model = find_model(spec.source.model, quant=spec.quant, weights_bytes=weights, hub_dirs=hub_dirs)
    return of_plan(model, spec.source, spec)


def of_plan(model: ModelFacts, source: PlannedServer, spec: SimSpec) -> Simulated:
    """The simulated server of a model on a device.

    Raises:
        UsageError: the device is not known, or the model does not fit.
    """
    outlook, pool = _fitting(_request(model, source, spec), spec)
    depth = outlook.setup.draft_depth
    acceptance = spec.acceptance or drafter_of(outlook.request).acceptance
    if len(acceptance) < depth:
        raise UsageError(
            f"draft_depth={depth} needs an acceptance for each drafted token, and {len(acceptance)} are known: add"
            " acceptance=0.8,0.6,… with as many shares."
        )
    return Simulated(
        spec=spec,
        engine=source.engine,
        model_name=model.name,
        config=planned_config(outlook, pool, spec, acceptance),
        cost=plan_costs(outlook),
        planned=Planned(outlook=outlook, pool=pool),
        words=outlook.expected.words,
    )


def of_profile(profile: MeasuredProfile, spec: SimSpec) -> Simulated:
    """The simulated server behind a measured profile.

    Raises:
        UsageError: no level of the profile can be used.
    """
    facts = profile.server.facts
    cost = measured_costs(profile, slots=measured_slots(profile))
    batches = ", ".join(str(width) for width in cost.widths)
    return Simulated(
        spec=spec,
        engine=facts.engine,
        model_name=str(facts.model.value or "measured-model"),
        config=measured_config(profile, spec),
        cost=cost,
        measured=facts,
        words=f"measured with {batches} decoding together",
    )


def _request(model: ModelFacts, source: PlannedServer, spec: SimSpec) -> PlanRequest:
    device = find_device(source.device)
    context = spec.context or _usual_context(model, source.engine, device)
    if model.context_tokens is not None and context > model.context_tokens:
        raise UsageError(
            f"context={context} is longer than {model.name} was made for ({model.context_tokens:,} tokens)."
        )
    return PlanRequest(
        model=model,
        device=device,
        engine=source.engine,
        use=Use.BATCH,
        typical=Footprint(mean_tokens=context, spread_tokens=0.0),
        max_tokens=context,
        kv_dtype=spec.kv_dtype,
        state_dtype=spec.state_dtype,
        slots=spec.slots,
        draft_depth=spec.draft_depth,
        acceptance=spec.acceptance,
    )


def _usual_context(model: ModelFacts, engine: str, device: Device) -> int:
    """The longest sequence when nothing is set: what the model was made for; Ollama goes by the device's memory."""
    made_for = model.context_tokens or USUAL_CONTEXT
    return min(made_for, default_context_tokens(device.memory_bytes)) if engine == "ollama" else made_for


def _fitting(request: PlanRequest, spec: SimSpec) -> tuple[Outlook, Pool]:
    """The outlook and its pool, with the longest sequence that fits where none was asked for.

    Raises:
        UsageError: the model, or one sequence as asked, does not fit.
    """
    outlook = as_stated(request)
    missing = outlook.budget.missing_bytes
    if missing:
        raise UsageError(
            f"{request.model.name} does not fit on {request.device.name}: {missing / 1e9:.1f} GB are missing before the"
            " first request. Choose a smaller quant or weights_gb, or a larger device."
        )
    if request.engine == "llama.cpp":
        return outlook, _llama_cpp_pool(outlook, spec)
    longest = longest_to_allow(outlook)
    if outlook.pool.holds(longest) < 1 or (spec.context is not None and longest < spec.context):
        raise UsageError(
            f"No request of {request.max_tokens:,} tokens fits beside {request.model.name} on {request.device.name}"
            f" (the longest is {longest:,}): set a smaller context, or a narrower kv_dtype."
        )
    if longest < request.max_tokens:
        outlook = as_stated(replace(request, max_tokens=longest))
    return outlook, outlook.pool


def _llama_cpp_pool(outlook: Outlook, spec: SimSpec) -> Pool:
    """llama.cpp's cells: `-c` is the model's context unless set, and is shared, or divided among the slots.

    A stated context is that of one slot, as one would start it: `-np N -c N*context`.
    """
    model, settings = outlook.setup.model, outlook.settings
    slots = 1 if shares_pool(settings) else slot_count(settings)
    each = outlook.request.max_tokens if spec.context else -(-outlook.request.max_tokens // slots)
    settings = replace(settings, longest_tokens=each)
    pool = llama_cpp_pool_of(model, settings, outlook.budget.pool_bytes)
    if pool.tokens > each * slots:
        pool = llama_cpp_pool(model, settings, each * slots)
    if pool.tokens < slots or (spec.context is not None and pool.longest_tokens < spec.context):
        raise UsageError(
            f"A context of {each:,} tokens for {slots} slots of {model.name} does not fit on"
            f" {outlook.request.device.name}: set a smaller context, fewer slots, or a narrower kv_dtype."
        )
    return pool
