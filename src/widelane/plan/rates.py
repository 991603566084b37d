"""How fast one machine with one engine decodes: what its kernels are like, and two numbers fitted where known.

`rates_for` gives the rates of a step with their origin in words and the interval of what they predict.
"""

from __future__ import annotations

from dataclasses import dataclass

from widelane.errors import UsageError
from widelane.facts.devices.device import Device
from widelane.figures import Origin
from widelane.plan.engine_traits import (
    ALL_REDUCE_S_PER_LAYER,
    FIRST_STATE_PASSES,
    EngineTraits,
    kernels_of,
    peak_flops,
    traits_of,
)
from widelane.plan.fit import MachineFit, Observation
from widelane.plan.fitted import FittedMachine, fitted_machine
from widelane.plan.step_time import StepCost, StepRates, step_seconds

USUAL = MachineFit(efficiency=0.8, overhead_scale=1.0)
"""What is assumed of a machine that nobody has fitted."""
OVERHEAD_S = 1e-3
OVERHEAD_S_PER_LAYER = 50e-6

BITS_16 = 15.0
BITS_4 = 6.3
"""Weights with at least, or at most, so many bits on average count as 16-bit or 4-bit ones (Q4_K_M has 4.9)."""

FITTED_RANGE = (0.7, 1.4)
ASSUMED_RANGE = (0.65, 1.7)
"""Measured over predicted step time of nine in ten rows of a source that neither the fit nor the choice of kernel
traits had seen: with a fit of the like machine, and without any (calibration rows, `docs/benchmarks.md`)."""
MEASURED_RANGE = (0.8, 1.3)
"""The same where the two numbers were fitted to steps of the very server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRates:
    """Rates with where they come from.

    Attributes:
        origin: MEASURED when fitted to steps of this machine, PREDICTED from others like it, ASSUMED without a fit.
        words: that in a sentence.
        low, high: a step takes at least `low` and at most `high` times what is predicted, in nine cases of ten.
    """

    rates: StepRates
    origin: Origin
    words: str
    low: float
    high: float


def rates_for(device: Device, engine: str, cost: StepCost, *, fit: MachineFit | None = None) -> ExpectedRates:
    """Rates of a step of the model behind `cost`.

    Args:
        engine: `vllm`, `sglang`, `llama.cpp`, `ollama`, …; a suffix names other kernels (`llama.cpp-vulkan`).
        fit: the two numbers, where the caller fitted a sweep of this machine; None takes what is known of its like.

    Raises:
        UsageError: the device's memory bandwidth is not known.
    """
    if fit is not None:
        words = f"fitted to steps measured here: {_fit_words(fit)}"
        low, high = MEASURED_RANGE
        return ExpectedRates(
            rates=step_rates(device, engine, cost, fit), origin=Origin.MEASURED, words=words, low=low, high=high
        )
    known = known_fit(device, engine)
    if known is not None:
        low, high = FITTED_RANGE
        words = f"fitted to {known.rows} measured steps of {known.device} with {known.engine}: {_fit_words(known.fit)}"
        rates = step_rates(device, engine, cost, known.fit)
        return ExpectedRates(rates=rates, origin=Origin.PREDICTED, words=words, low=low, high=high)
    low, high = ASSUMED_RANGE
    words = f"no measured steps of {device.name} with {engine} are known; assumed: {_fit_words(USUAL)}"
    rates = step_rates(device, engine, cost, USUAL)
    return ExpectedRates(rates=rates, origin=Origin.ASSUMED, words=words, low=low, high=high)


def known_fit(device: Device, engine: str) -> FittedMachine | None:
    """The shipped fit of a device and an engine, None when there is none."""
    return fitted_machine(device.name.lower(), engine_name(engine))


def engine_name(engine: str) -> str:
    """The engine whose fit counts: Ollama and LM Studio run llama.cpp's kernels, and a suffix names a build of it."""
    name = engine.lower()
    if "mlx" in name:
        return "mlx"
    if any(part in name for part in ("llama", "ollama", "lm-studio", "lmstudio", "gguf")):
        return "llama.cpp"
    return name.split("-")[0]


def usual_overhead_s(cost: StepCost, traits: EngineTraits) -> float:
    """Time of a step that moves nothing: 1 ms + 50 µs a layer, and as much again where layers route to experts."""
    routing = traits.routing_layers if cost.n_experts > 0 else 0.0
    return OVERHEAD_S + OVERHEAD_S_PER_LAYER * cost.n_layers * (1.0 + routing)


def step_rates(device: Device, engine: str, cost: StepCost, fit: MachineFit) -> StepRates:
    """Rates under a given fit.

    Raises:
        UsageError: the device's memory bandwidth is not known.
    """
    traits = traits_of(kernels_of(device, engine))
    bandwidth = _bandwidth_bytes_s(device, traits)
    exchange_s = ALL_REDUCE_S_PER_LAYER * cost.n_layers if device.count > 1 and traits.tensor_parallel else 0.0
    return StepRates(
        bandwidth_bytes_s=bandwidth,
        efficiency=fit.efficiency,
        overhead_s=usual_overhead_s(cost, traits) * fit.overhead_scale + exchange_s,
        state_passes=traits.scan_passes if cost.scan_state else traits.delta_passes,
        first_state_passes=FIRST_STATE_PASSES,
        compute_s_per_gparam_token=_compute_s(device, traits, bandwidth),
        expert_efficiency=traits.expert_efficiency,
        joint_expert_efficiency=traits.joint_expert_efficiency,
        apart_tokens=traits.apart_tokens,
        dense_efficiency=_dense_efficiency(cost, traits),
        several_overhead_s=traits.several_s_per_layer * cost.n_layers,
        matrix_s_per_gparam_token=_seconds(traits.matrix_flops_per_byte, bandwidth),
        tile_tokens=traits.tile_tokens,
        attention_flops_s=_times(traits.attention_flops_per_byte, bandwidth),
    )


def observation(
    device: Device,
    engine: str,
    cost: StepCost,
    *,
    batch: int,
    context: float,
    measured_s: float,
    draft_depth: int = 0,
) -> Observation:
    """A measured step as `fit.fit_machine` takes it.

    The step is linear in 1/efficiency (attention that is as long by its arithmetic as by its bytes aside), so two
    values of it tell what is moved from what is fixed.

    Raises:
        UsageError: the device's memory bandwidth is not known.
        ValueError: the step took no time.
    """

    def predicted_s(efficiency: float, scale: float) -> float:
        rates = step_rates(device, engine, cost, MachineFit(efficiency, scale))
        return step_seconds(cost, rates, batch=batch, context=context, draft_depth=draft_depth)

    slower, faster = 0.75, 0.85
    moved_s = (predicted_s(slower, 0.0) - predicted_s(faster, 0.0)) / (1.0 / slower - 1.0 / faster)
    return Observation(
        moved_s=moved_s,
        overhead_s=usual_overhead_s(cost, traits_of(kernels_of(device, engine))),
        fixed_s=predicted_s(faster, 0.0) - moved_s / faster,
        measured_s=measured_s,
    )


def _bandwidth_bytes_s(device: Device, traits: EngineTraits) -> float:
    """What one step can draw on: all cards together, or one where they take turns."""
    if not device.memory_bandwidth_bytes_s:
        raise UsageError(
            f"The memory bandwidth of {device.name} is not known, so no rate can be told. "
            "Name a device of the table with `--device`, or let it be measured with `--measure-bandwidth`."
        )
    cards = 1 if traits.tensor_parallel else device.count
    return device.memory_bandwidth_bytes_s / cards


def _dense_efficiency(cost: StepCost, traits: EngineTraits) -> float:
    bits = cost.dense_bits
    if bits is None:
        return 1.0
    if bits <= BITS_4:
        return traits.bits4_efficiency
    return traits.bits16_efficiency if bits >= BITS_16 and cost.n_experts == 0 else 1.0


def _compute_s(device: Device, traits: EngineTraits, bandwidth: float) -> float:
    if traits.flops_share is not None:
        cards = 1 if traits.tensor_parallel else device.count
        return 2e9 / (traits.flops_share * peak_flops(device) / cards)
    return _seconds(traits.compute_flops_per_byte, bandwidth) or 0.0


def _seconds(flops_per_byte: float | None, bandwidth: float) -> float | None:
    """Seconds for 10^9 parameters and a token: a multiplication and an addition each."""
    return None if flops_per_byte is None else 2e9 / (flops_per_byte * bandwidth)


def _times(flops_per_byte: float | None, bandwidth: float) -> float | None:
    return None if flops_per_byte is None else flops_per_byte * bandwidth


def _fit_words(fit: MachineFit) -> str:
    return f"{fit.efficiency * 100:.0f} % of the nominal bandwidth, {fit.overhead_scale:.2g} times the usual overhead"
