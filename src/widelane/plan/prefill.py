"""How long a prompt takes to be read: arithmetic of the linear layers, and attention that grows with depth.

    seconds/token = 2 P_active / TF_linear + 2 heads (d_k + d_v) sum_layers min(depth, window) / TF_attention

TF_linear depends on engine and weights, TF_attention is about one constant a machine. Fitted to llama-bench at depths
of 0 to 32,768 tokens this holds within 2.3 % (GB10, M2 Ultra).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from widelane.facts.devices.device import Device
from widelane.facts.model import AttentionLayers, ModelFacts
from widelane.figures import Origin
from widelane.plan.engine_traits import Kernels, bare_name, kernels_of, peak_flops
from widelane.plan.step_cost import decode_flops_per_token


class PrefillRates(NamedTuple):
    """What a machine reaches in prefill.

    Attributes:
        linear_flops, attention_flops: operations a second.
        on_latent_rows: latent attention works on the compressed rows, as it does in decoding: many more operations than
            on the expanded heads. llama.cpp does so (GLM-4.7-Flash at five depths), vLLM and SGLang expand.
    """

    linear_flops: float
    attention_flops: float
    on_latent_rows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPrefill:
    """Prefill rates with where they come from.

    Attributes:
        low, high: a prompt takes at least `low` and at most `high` times what is predicted.
    """

    rates: PrefillRates
    origin: Origin
    words: str
    low: float
    high: float


_GGML = (Kernels.GGML_CUDA, Kernels.GGML_METAL, Kernels.GGML_VULKAN, Kernels.GGML_CPU)

# llama-bench b7941 (GB10) and b7948 (M2 Ultra), 2,048-token chunks: dense 32 to 47 and 23 TFLOPS, mixtures of experts
# 19 to 34 and 17 to 21; attention 43 to 63 and 11 to 13.5.
_MEASURED: Mapping[tuple[str, bool], PrefillRates] = {
    ("gb10", False): PrefillRates(36e12, 51.4e12),
    ("gb10", True): PrefillRates(25.5e12, 51.4e12),
    ("apple-m2-ultra", False): PrefillRates(23.4e12, 12.75e12),
    ("apple-m2-ultra", True): PrefillRates(18.3e12, 12.75e12),
}
"""(device, mixture of experts) -> llama.cpp's rates."""

_SHARES: Mapping[Kernels, PrefillRates] = {
    Kernels.PAGED: PrefillRates(0.46, 0.41),
    Kernels.GGML_CUDA: PrefillRates(0.29, 0.41),
    Kernels.GGML_VULKAN: PrefillRates(0.25, 0.15),
    Kernels.GGML_CPU: PrefillRates(0.25, 0.15),
}
"""Shares of the 16-bit peak: a GB10 (125 TFLOPS) reaches 53 to 64 in vLLM and 36 in llama.cpp, and 51 in attention. No
rows tell Vulkan's and CPUs' shares; they are guessed lower."""
_FLOPS_PER_BYTE: Mapping[Kernels, PrefillRates] = {
    Kernels.GGML_METAL: PrefillRates(29.0, 16.0),
    Kernels.MLX: PrefillRates(29.0, 16.0),
    Kernels.GGML_CPU: PrefillRates(10.0, 5.0),
}
"""Apple: an M2 Ultra's llama.cpp rates over its 800 GB/s, taken for MLX too. CPU: guessed."""
_EXPERTS_SLOW = 0.71
"""A mixture's linear layers against a dense model's, on the GB10."""
_MEASURED_RANGE = (0.75, 1.35)
_ASSUMED_RANGE = (0.6, 2.0)


def prefill_rates_for(device: Device, engine: str, *, experts: bool) -> ExpectedPrefill:
    """Rates of prefill on a device; `experts` tells a mixture of experts."""
    kernels = kernels_of(device, engine)
    measured = _MEASURED.get((bare_name(device), experts)) if kernels in _GGML else None
    if measured is not None:
        low, high = _MEASURED_RANGE
        return ExpectedPrefill(
            rates=measured._replace(on_latent_rows=True),
            origin=Origin.PREDICTED,
            words=f"from llama-bench on {bare_name(device)}: {_words(measured)}",
            low=low,
            high=high,
        )
    low, high = _ASSUMED_RANGE
    rates = _assumed(device, kernels, experts=experts)
    return ExpectedPrefill(
        rates=rates,
        origin=Origin.ASSUMED,
        words=f"no prefill of {device.name} with {engine} is known; assumed from its peak: {_words(rates)}",
        low=low,
        high=high,
    )


def attention_flops(facts: ModelFacts, depth: float, *, on_latent_rows: bool = False) -> float:
    """Operations that one prompt token spends on attention to the `depth` tokens before it."""
    return sum(
        _flops(group, on_latent_rows) * (depth if group.window is None else min(depth, group.window))
        for group in facts.attention
    )


def prefill_seconds_per_token(facts: ModelFacts, rates: PrefillRates, *, depth: float) -> float:
    """Seconds that one more token of a prompt takes at a depth of `depth` tokens."""
    attention = attention_flops(facts, depth, on_latent_rows=rates.on_latent_rows)
    return 2.0 * facts.parameters.active / rates.linear_flops + attention / rates.attention_flops


def prefill_seconds(facts: ModelFacts, rates: PrefillRates, *, tokens: float, depth: float = 0.0) -> float:
    """Seconds to read `tokens` tokens after `depth` that are there already: the sum over its tokens, exactly."""
    linear_s = 2.0 * facts.parameters.active * tokens / rates.linear_flops
    return linear_s + prefill_attention_seconds(facts, rates, tokens=tokens, depth=depth)


def prefill_attention_seconds(facts: ModelFacts, rates: PrefillRates, *, tokens: float, depth: float = 0.0) -> float:
    """The part of `prefill_seconds` that attention takes."""
    end = depth + tokens
    attention = sum(
        _flops(group, rates.on_latent_rows) * (_area(group, end) - _area(group, depth)) for group in facts.attention
    )
    return attention / rates.attention_flops


def _flops(group: AttentionLayers, on_latent_rows: bool) -> float:
    """Operations of one token on one token before it, in all these layers."""
    if on_latent_rows:
        return decode_flops_per_token(group)
    return 2.0 * group.count * group.heads * (group.score_key_dim + group.score_value_dim)


def _area(group: AttentionLayers, depth: float) -> float:
    """Tokens looked back at by all tokens up to `depth` together."""
    if group.window is None or depth <= group.window:
        return depth * depth / 2.0
    return group.window * group.window / 2.0 + group.window * (depth - group.window)


def _assumed(device: Device, kernels: Kernels, *, experts: bool) -> PrefillRates:
    bandwidth = device.memory_bandwidth_bytes_s or 0.0
    by_bandwidth = _FLOPS_PER_BYTE.get(kernels)
    if by_bandwidth is not None and (device.bf16_flops is None or kernels not in _SHARES):
        share, peak = by_bandwidth, bandwidth
    else:
        share, peak = _SHARES[kernels], peak_flops(device)
    linear = share.linear_flops * peak * (_EXPERTS_SLOW if experts else 1.0)
    return PrefillRates(linear, share.attention_flops * peak, on_latent_rows=kernels in _GGML)


def _words(rates: PrefillRates) -> str:
    return f"{rates.linear_flops / 1e12:.3g} TFLOPS in linear layers, {rates.attention_flops / 1e12:.3g} in attention"
