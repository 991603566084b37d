"""Models and rates whose decode steps can be worked out by hand."""

from dataclasses import replace

from widelane.plan.step_time import StepCost, StepRates

DENSE = StepCost(
    dense_bytes=20e9,
    expert_bytes=0,
    n_experts=0,
    top_k=0,
    kv_bytes_per_token=100_000,
    kv_bytes_per_token_window=0,
    window=0,
    state_bytes=0,
    active_parameters=10e9,
    n_layers=40,
    dense_parameters=10e9,
)
"""10^10 weights of 16 bits, 100 kB of cache a token."""

MIXTURE = replace(DENSE, dense_bytes=4e9, expert_bytes=64e9, n_experts=128, top_k=8, active_parameters=4e9)
HYBRID = replace(DENSE, state_bytes=100e6)

PLAIN = StepRates(
    bandwidth_bytes_s=1e12,
    efficiency=0.8,
    overhead_s=2e-3,
    state_passes=2.0,
    compute_s_per_gparam_token=1e-5,
    expert_efficiency=0.5,
)
"""0.8 TB/s reached."""


def qwen_27b(dense_bytes: float, *, kv_bytes: float, dense_parameters: float = 25.6e9) -> StepCost:
    """Qwen3.6-27B: 16 attention layers (4 KV heads of 256), 48 gated DeltaNet layers with a float32 state.

    Args:
        kv_bytes: of one cached element.
    """
    return StepCost(
        dense_bytes=dense_bytes,
        expert_bytes=0,
        n_experts=0,
        top_k=0,
        kv_bytes_per_token=32_768 * kv_bytes,
        kv_bytes_per_token_window=0,
        window=0,
        state_bytes=156.9e6,
        active_parameters=25.6e9,
        n_layers=64,
        dense_parameters=dense_parameters,
        draft_bytes=2.54e9,
    )


QWEN_35B_A3B = StepCost(
    dense_bytes=2.48e9,
    expert_bytes=32.2e9,
    n_experts=256,
    top_k=8,
    kv_bytes_per_token=10_240,
    kv_bytes_per_token_window=0,
    window=0,
    state_bytes=64.4e6,
    active_parameters=2.95e9,
    n_layers=40,
    dense_parameters=1.94e9,
)
"""Qwen3.6-35B-A3B in fp8, fp8 cache."""
