"""How long one decode step takes: weights once, experts by their union, each sequence's own cache and state.

    n = B (1 + k);   f = 1 - (1 - top_k / E) ** (1 + 0.6 (n - 1))
    t = t0 + dense / (eff BW) + experts f / (0.75 eff BW) + B (KV(context) + passes S) / (eff BW) + g n P_active

A step's length is what everything else here follows from: rates, the batch at which a step takes twice as long, and
the simulator's clock.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """What one step of a model moves and computes.

    Attributes:
        dense_bytes: weights read whatever the batch.
        expert_bytes: all routed experts, 0 in a dense model.
        n_experts, top_k: routing of a layer, 0 in a dense model.
        kv_bytes_per_token: cache bytes a token, in layers that keep every token.
        kv_bytes_per_token_window: the same in sliding-window layers, which read at most `window` tokens.
        state_bytes: recurrent state of one sequence.
        active_parameters: parameters one token computes with.
        n_layers: layers of the stack.
    """

    dense_bytes: float
    expert_bytes: float
    n_experts: int
    top_k: int
    kv_bytes_per_token: float
    kv_bytes_per_token_window: float
    window: int
    state_bytes: float
    active_parameters: float
    n_layers: int

    def kv_bytes(self, context: float) -> float:
        """Cache bytes that one sequence of `context` tokens has read in one step."""
        windowed = min(context, self.window) if self.window else 0.0
        return self.kv_bytes_per_token * context + self.kv_bytes_per_token_window * windowed


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRates:
    """How fast one machine with one engine does it.

    Attributes:
        bandwidth_bytes_s: nominal memory bandwidth.
        efficiency: share of it that decoding reaches (fitted, or 0.8; 0.7 for 4-bit weights).
        overhead_s: time of a step that moves nothing (fitted, or 1 ms + 50 µs a layer).
        state_passes: times a recurrent state crosses the bus in a step: 2 (read and written), 18 for llama.cpp.
        compute_s_per_gparam_token: seconds per 10^9 active parameters and token of the batch.
        expert_efficiency: routed experts are read at this share of `efficiency`.
    """

    bandwidth_bytes_s: float
    efficiency: float
    overhead_s: float
    state_passes: float
    compute_s_per_gparam_token: float
    expert_efficiency: float = 0.75


def expert_share(top_k: int, n_experts: int, tokens: float) -> float:
    """Share of the routed experts that a step of `tokens` tokens visits, 0 … 1.

    Tokens of one batch choose alike: each further token counts as 0.6 of an independent one.
    """
    if n_experts <= 0:
        return 0.0
    return float(1.0 - (1.0 - top_k / n_experts) ** (1.0 + 0.6 * (tokens - 1.0)))


def step_seconds(cost: StepCost, rates: StepRates, *, batch: int, context: float, draft_depth: int = 0) -> float:
    """Seconds of one decode step of `batch` sequences that hold `context` tokens each.

    Args:
        draft_depth: drafted tokens that each sequence has checked in the same step (k).
    """
    tokens = batch * (1 + draft_depth)
    reached = rates.efficiency * rates.bandwidth_bytes_s
    share = expert_share(cost.top_k, cost.n_experts, tokens)
    own = batch * (cost.kv_bytes(context) + rates.state_passes * cost.state_bytes)
    return (
        rates.overhead_s
        + (cost.dense_bytes + own) / reached
        + cost.expert_bytes * share / (rates.expert_efficiency * reached)
        + rates.compute_s_per_gparam_token * tokens * cost.active_parameters / 1e9
    )
