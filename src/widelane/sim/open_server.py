"""From a `sim:…` argument to a server: settings, step costs, habits and faults put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from widelane.clock import Clock
from widelane.engines.hints import Hints
from widelane.engines.server_facts import ServerFacts
from widelane.errors import UsageError
from widelane.plan.pool.dtypes import AUTO, dtype_name
from widelane.plan.pool.llama_cpp import LlamaCppPool
from widelane.sim import llama_cpp_endpoints, vllm_endpoints
from widelane.sim.answers.answer import Answerer
from widelane.sim.chat_template import template_of
from widelane.sim.config import EngineConfig, PrefixCache
from widelane.sim.cost_model import CostModel
from widelane.sim.faults.catalogue import QUEUE, QUEUE_SLOTS, in_turn
from widelane.sim.misconfigurations import chosen, habits, stated
from widelane.sim.server import DEFAULT_ANSWERS, SimServer
from widelane.sim.settings import Habits, ServerSettings
from widelane.sim.simulated import LoadProfile, Planned, Simulated, simulated
from widelane.sim.slower import Slower
from widelane.sim.spec import SimSpec

_OFFLOAD_SLOWNESS = 4.0
"""A step that reads two thirds of its weights at a CPU's bandwidth: an example, as a real one depends on the CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A server that could be started.

    Attributes:
        words: where its step times come from.
    """

    spec: SimSpec
    config: EngineConfig
    cost: CostModel
    settings: ServerSettings
    words: str

    def server(
        self, *, answerer: Answerer = DEFAULT_ANSWERS, speed: float | None = 1.0, clock: Clock | None = None
    ) -> SimServer:
        """The server; its faults come in turn."""
        return SimServer(
            self.config,
            self.cost,
            self.settings,
            seed=self.spec.seed,
            answerer=answerer,
            speed=speed,
            faults=in_turn(self.spec.fault),
            clock=clock,
            name=self.spec.text,
        )

    @property
    def launch_line(self) -> str | None:
        """The command that would start such a server; None for an engine whose facts are not played."""
        engine = self.settings.engine
        if engine == "llama.cpp":
            return llama_cpp_endpoints.launch_line(self.settings)
        return vllm_endpoints.launch_line(self.settings) if engine == "vllm" else None

    @property
    def hints(self) -> Hints:
        """What a person who started it knows besides HTTP."""
        log = llama_cpp_endpoints.start_log(self.settings) if self.settings.engine == "llama.cpp" else ""
        return Hints(launch=self.launch_line, log=log or None)


def assemble(spec: SimSpec, *, load_profile: LoadProfile, hub_dirs: Sequence[Path] = ()) -> Assembled:
    """The server that a spec names.

    Raises:
        UsageError: what it names is not known, or cannot be together.
    """
    in_turn(spec.fault)  # refuses names that are not known, before anything is read
    planted = chosen(spec)
    changed = stated(spec, planted)
    if QUEUE in spec.fault:
        changed = replace(changed, slots=QUEUE_SLOTS)
    made = simulated(changed, load_profile=load_profile, hub_dirs=hub_dirs)
    config, cost = made.config, made.cost
    settings = _settings(made, habits(planted))
    for one in planted:
        config = one.config(config) if one.config is not None else config
        settings = one.settings(settings) if one.settings is not None else settings
    if settings.layers_on_gpu is not None:
        cost = Slower(cost, _OFFLOAD_SLOWNESS)
    return Assembled(spec=spec, config=config, cost=cost, settings=settings, words=made.words)


def _settings(made: Simulated, usual: Habits) -> ServerSettings:
    settings = ServerSettings(
        engine=made.engine,
        model=made.model_name,
        template=template_of(made.model_name),
        slots=made.config.slots,
        context_tokens=made.config.longest_tokens,
        draft_depth=made.config.draft_depth,
        prefix_cache=made.config.prefix_cache is not PrefixCache.NONE,
        habits=usual,
    )
    if made.planned is not None:
        return _planned(settings, made.planned)
    if made.measured is not None:
        return _measured(settings, made.measured)
    raise UsageError("A simulated server is either planned or measured.")


def _planned(settings: ServerSettings, planned: Planned) -> ServerSettings:
    model, pool, setup = planned.model, planned.pool, planned.outlook.setup
    llama = settings.engine == "llama.cpp"
    kv_dtype = dtype_name(setup.kv_dtype)
    return replace(
        settings,
        trained_tokens=model.context_tokens,
        pool_tokens=pool.log_line_tokens,
        pool_blocks=pool.blocks,
        block_tokens=pool.block_tokens,
        unified=isinstance(pool, LlamaCppPool) and pool.shared,
        kv_dtype=setup.kv_dtype if kv_dtype != AUTO else "f16" if llama else "auto",
        state_dtype=_state_dtype(planned),
        weights_bytes=round(model.weights.total_bytes),
        weights_type=model.weights.quant,
        parameters=round(model.parameters.total),
        layers=model.n_layers,
    )


def _state_dtype(planned: Planned) -> str | None:
    """Of the large state: as set, else what the checkpoint names, else the model's type."""
    recurrent = planned.model.recurrent
    if not recurrent:
        return None
    stated_dtype = planned.outlook.setup.state_dtype
    return stated_dtype if stated_dtype != AUTO else recurrent[0].state_dtype or "auto"


def _measured(settings: ServerSettings, facts: ServerFacts) -> ServerSettings:
    pool, trained = facts.pool_tokens.number, facts.context_trained.number
    kv_dtype, state_dtype = facts.kv_dtype.value, facts.state_dtype.value
    return replace(
        settings,
        trained_tokens=int(trained) if trained else None,
        pool_tokens=int(pool) if pool else None,
        unified=facts.unified_pool.value is True,
        kv_dtype=str(kv_dtype) if kv_dtype else "auto",
        state_dtype=str(state_dtype) if state_dtype else None,
        weights_bytes=int(facts.weights_bytes.number) if facts.weights_bytes.number else None,
        parameters=int(facts.parameters.number) if facts.parameters.number else None,
    )
