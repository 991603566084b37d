"""How long one decode step takes: weights once, experts by their union, each sequence's own cache and state.

    n = B (1 + k);   f = 1 - (1 - top_k / E) ** (n ** 0.75)
    t = t0 + [n > 1] w + (dense / d + experts f / x + B KV(context) + (p1 + p (B - 1)) S + k D) / (eff BW) + compute
    compute = g (n - 1) P_active, or one padded tile of a matrix kernel where that is shorter

A step's length is what everything else here follows from: rates, the batch at which a step takes twice as long, and
the simulator's clock. Which kernels an engine has on a device sets d, x, p1, p, w and g (`plan.engine_traits`); eff and
t0 are fitted for each machine and engine (`plan.fitted`), or assumed. The attention of a step is its bytes or its
arithmetic, whichever is longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

EXPERT_GROWTH = 0.75
"""Tokens of one batch choose experts alike: n of them visit as many as n ** 0.75 that choose independently.

The calibration rows are met best at 0.7 (llama.cpp on CUDA) to 0.8 (vLLM). Counting each further token as 0.6 of an
independent one does as well in vLLM and worse in llama.cpp, where batches are wider.
"""


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
        dense_parameters: parameters behind `dense_bytes`; 0 where not known.
        draft_bytes: read for one drafted token: the draft head (or model) and the output layer.
        attention_flops_per_token, attention_flops_per_token_window: operations that one decoded token spends on each
            token of its context (scores and values of all query heads); 0 where not known.
        scan_state: the state is that of a Mamba scan rather than of a delta rule.
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
    dense_parameters: float = 0.0
    draft_bytes: float = 0.0
    attention_flops_per_token: float = 0.0
    attention_flops_per_token_window: float = 0.0
    scan_state: bool = False

    def kv_bytes(self, context: float) -> float:
        """Cache bytes that one sequence of `context` tokens has read in one step."""
        windowed = min(context, self.window) if self.window else 0.0
        return self.kv_bytes_per_token * context + self.kv_bytes_per_token_window * windowed

    def attention_flops(self, context: float) -> float:
        """Operations of one decoded token on a context of `context` tokens."""
        windowed = min(context, self.window) if self.window else 0.0
        return self.attention_flops_per_token * context + self.attention_flops_per_token_window * windowed

    @property
    def dense_bits(self) -> float | None:
        """Bits of one weight among those read whatever the batch, None where their number is not known."""
        return 8.0 * self.dense_bytes / self.dense_parameters if self.dense_parameters > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRates:
    """How fast one machine with one engine does it.

    Attributes:
        bandwidth_bytes_s: nominal memory bandwidth that one step can draw on.
        efficiency: share of it that decoding reaches (fitted, or 0.8).
        overhead_s: time of a step that moves nothing (fitted, or 1 ms + 50 µs a layer and more for routing).
        state_passes: times a recurrent state crosses the bus in a step: 2 (read and written), more in llama.cpp.
        compute_s_per_gparam_token: seconds per 10^9 active parameters and further token of the batch. The first token's
            arithmetic hides behind the reading of the weights.
        expert_efficiency, dense_efficiency: share of `efficiency` at which routed experts and the other weights are
            read: dequantising costs, and so do many small matrices.
        first_state_passes: the same as `state_passes` for the first sequence; None when it is treated as the others.
        several_overhead_s: further time of every step of more than one token.
        apart_tokens: up to so many tokens, each reads its own experts even where they are the same.
        joint_expert_efficiency: `expert_efficiency` beyond `apart_tokens`; None when it does not change.
        matrix_s_per_gparam_token, tile_tokens: seconds per 10^9 parameters and token in matrix kernels that always
            compute whole tiles of so many tokens; None when there is no such path.
        attention_flops_s: arithmetic rate of decoding attention; None when its bytes alone count.
    """

    bandwidth_bytes_s: float
    efficiency: float
    overhead_s: float
    state_passes: float
    compute_s_per_gparam_token: float
    expert_efficiency: float = 0.75
    dense_efficiency: float = 1.0
    first_state_passes: float | None = None
    several_overhead_s: float = 0.0
    apart_tokens: int = 0
    joint_expert_efficiency: float | None = None
    matrix_s_per_gparam_token: float | None = None
    tile_tokens: int = 1
    attention_flops_s: float | None = None


class StepParts(NamedTuple):
    """Where the time of one step goes, in seconds; the parts add up to its length.

    Attributes:
        weights_s: weights read whatever the batch, and those read for drafting.
        experts_s: routed experts that the batch visits.
        cache_s: attention over the sequences' caches.
        state_s: recurrent states.
        compute_s: arithmetic of all tokens but the first.
        overhead_s: launches, scheduling, sampling.
    """

    weights_s: float
    experts_s: float
    cache_s: float
    state_s: float
    compute_s: float
    overhead_s: float


def expert_share(top_k: int, n_experts: int, tokens: float) -> float:
    """Share of the routed experts that a step of `tokens` tokens visits, 0 … 1 (see EXPERT_GROWTH)."""
    if n_experts <= 0 or tokens <= 0:
        return 0.0
    return float(1.0 - (1.0 - top_k / n_experts) ** (tokens**EXPERT_GROWTH))


def step_seconds(cost: StepCost, rates: StepRates, *, batch: int, context: float, draft_depth: int = 0) -> float:
    """Seconds of one decode step of `batch` sequences that hold `context` tokens each.

    Args:
        draft_depth: drafted tokens that each sequence has checked in the same step (k).
    """
    return sum(step_parts(cost, rates, batch=batch, context=context, draft_depth=draft_depth))


def step_parts(cost: StepCost, rates: StepRates, *, batch: int, context: float, draft_depth: int = 0) -> StepParts:
    """What `step_seconds` is made of; the same arguments."""
    tokens = batch * (1 + draft_depth)
    reached = rates.efficiency * rates.bandwidth_bytes_s
    cache_s = batch * cost.kv_bytes(context) / reached
    if rates.attention_flops_s:
        cache_s = max(cache_s, batch * cost.attention_flops(context) / rates.attention_flops_s)
    first = rates.state_passes if rates.first_state_passes is None else rates.first_state_passes
    state_passes = first + rates.state_passes * (batch - 1)
    return StepParts(
        weights_s=(cost.dense_bytes / rates.dense_efficiency + draft_depth * cost.draft_bytes) / reached,
        experts_s=_expert_bytes(cost, rates, tokens) / reached,
        cache_s=cache_s,
        state_s=state_passes * cost.state_bytes / reached,
        compute_s=_compute_s(cost, rates, tokens),
        overhead_s=rates.overhead_s + (rates.several_overhead_s if tokens > 1 else 0.0),
    )


def _expert_bytes(cost: StepCost, rates: StepRates, tokens: int) -> float:
    """Bytes of the experts a step reads, as if they were read at the full `efficiency`."""
    if cost.n_experts <= 0:
        return 0.0
    if tokens <= rates.apart_tokens:
        return cost.expert_bytes * tokens * cost.top_k / cost.n_experts / rates.expert_efficiency
    efficiency = rates.expert_efficiency if rates.joint_expert_efficiency is None else rates.joint_expert_efficiency
    return cost.expert_bytes * expert_share(cost.top_k, cost.n_experts, tokens) / efficiency


def _compute_s(cost: StepCost, rates: StepRates, tokens: int) -> float:
    gparams = cost.active_parameters / 1e9
    one_by_one_s = rates.compute_s_per_gparam_token * (tokens - 1) * gparams
    apart = cost.n_experts > 0 and tokens <= rates.apart_tokens
    if rates.matrix_s_per_gparam_token is None or apart:
        return one_by_one_s
    padded = math.ceil(tokens / rates.tile_tokens) * rates.tile_tokens
    return min(one_by_one_s, rates.matrix_s_per_gparam_token * padded * gparams)
