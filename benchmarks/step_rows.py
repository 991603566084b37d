"""Measured serving rows, one JSON object a line, as decode steps that the step-time model can be held against."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from widelane.errors import UsageError
from widelane.facts.devices.device import Device, DeviceKind
from widelane.facts.devices.table import find_device
from widelane.facts.known_models import known_model, known_names
from widelane.facts.model import ModelFacts
from widelane.plan.plausible import total_does_not_fit
from widelane.plan.rates import engine_name
from widelane.plan.step_cost import cost_of
from widelane.plan.step_time import StepCost

SCANS = ("nemotron", "mamba", "granite", "jamba", "falcon-h", "zamba")
"""Names of hybrid models with a Mamba scan: rows do not tell, and not every model is in the table of known shapes."""
SHAPE = (
    "weight_bytes",
    "weight_read_dense_bytes",
    "weight_experts_bytes",
    "params_active",
    "n_layers",
    "kv_bytes_per_token",
)
"""Without these the formula cannot be applied."""
SHARED_ATTENTION = 8.0
"""Query heads a KV head where the model's shape is not known: Qwen3, gpt-oss and Llama 3 have 4 to 8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One measured decode step.

    Attributes:
        batch: sequences decoding together: those offered, at most the server's places.
        doubtful: the row's own figures say that fewer were decoding (see `plan.plausible`); kept out of fits.
        naive_s: weights of one token over the nominal bandwidth, what is often used instead of a model.
    """

    device: Device
    engine: str
    configuration: str
    source: str
    cost: StepCost
    batch: int
    context: float
    draft_depth: int
    measured_s: float
    naive_s: float
    doubtful: bool

    @property
    def machine(self) -> tuple[str, str]:
        """Device and engine as fits are kept."""
        return self.device.name, engine_name(self.engine)


def read_steps(path: Path) -> tuple[list[Step], Counter[str]]:
    """The decode steps of a rows file, and how many rows were left out for which reason."""
    steps: list[Step] = []
    left_out: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip():
            continue
        row = json.loads(line)
        reason = why_not(row)
        if reason:
            left_out[reason] += 1
        else:
            steps.append(step_of(row))
    return steps, left_out


def why_not(row: dict[str, Any]) -> str | None:
    """Why a row is no measured decode step, None when it is one."""
    if not row.get("decode_only"):
        return "the rate includes prefill"
    if row.get("suspect"):
        return "marked suspect"
    if not row.get("step_ms") or not row.get("concurrency"):
        return "no step time"
    if any(row.get(key) is None for key in SHAPE):
        return "the model's shape is not known"
    return None


def step_of(row: dict[str, Any]) -> Step:
    """One row that `why_not` has nothing against."""
    places = row.get("max_num_seqs") or row["concurrency"]
    batch = min(row["concurrency"], places)
    routed = row["weight_experts_bytes"] * row["top_k"] / row["n_experts"] if row.get("n_experts") else 0.0
    total, each = row.get("decode_tok_s_total"), row.get("decode_tok_s_per_request")
    return Step(
        device=device_of(row),
        engine=row["engine"],
        configuration=row["config_id"],
        source=publisher(row["source"]),
        cost=cost_of_row(row),
        batch=batch,
        context=row.get("context_tokens") or 0.0,
        draft_depth=row.get("spec_depth") or 0,
        measured_s=row["step_ms"] / 1e3,
        naive_s=(row["weight_read_dense_bytes"] + routed) / (row["bandwidth_gbs"] * 1e9),
        doubtful=bool(total and each) and total_does_not_fit(each, batch, total) is not None,
    )


def device_of(row: dict[str, Any]) -> Device:
    """The device of the table where it is known, with the row's own bandwidth."""
    count = row.get("n_devices") or 1
    bandwidth = row["bandwidth_gbs"] * 1e9
    try:
        known = find_device(row["hardware"])
    except UsageError:
        return Device(
            name=row["hardware"],
            kind=DeviceKind.GPU,
            memory_bandwidth_bytes_s=bandwidth,
            memory_bytes=0,
            count=count,
        )
    return replace(known, memory_bandwidth_bytes_s=bandwidth)


def cost_of_row(row: dict[str, Any]) -> StepCost:
    """What a step costs by the row's own figures; what rows do not hold comes from the model's known shape."""
    n_experts, top_k = row.get("n_experts") or 0, row.get("top_k") or 0
    routed = row["params_experts"] * top_k / n_experts if n_experts else 0.0
    dense, experts = row["weight_read_dense_bytes"], row["weight_experts_bytes"]
    shape = known_shape(row["n_layers"], row["params_active"])
    kv_bytes = row["kv_bytes_per_token"]
    kv_window_bytes = row.get("kv_bytes_per_token_window") or 0
    flops, flops_window = attention_flops(shape, kv_bytes, kv_window_bytes, row["kv_dtype"])
    return StepCost(
        dense_bytes=dense,
        expert_bytes=experts,
        n_experts=n_experts,
        top_k=top_k,
        kv_bytes_per_token=kv_bytes,
        kv_bytes_per_token_window=kv_window_bytes,
        window=row.get("kv_window") or 0,
        state_bytes=row.get("state_bytes_per_seq") or 0,
        active_parameters=row["params_active"],
        n_layers=row["n_layers"],
        dense_parameters=row["params_active"] - routed,
        # What no step reads is the input embedding; the output layer has its size, and a draft layer a fifth of that.
        draft_bytes=1.2 * max(0, row["weight_bytes"] - dense - experts),
        attention_flops_per_token=flops,
        attention_flops_per_token_window=flops_window,
        scan_state=cost_of(shape).scan_state if shape else any(word in row["model"].lower() for word in SCANS),
    )


def attention_flops(
    shape: ModelFacts | None, kv_bytes: float, kv_window_bytes: float, kv_dtype: str
) -> tuple[float, float]:
    """Operations on one token of context, in lasting and in sliding-window layers."""
    if shape is not None:
        cost = cost_of(shape)
        return cost.attention_flops_per_token, cost.attention_flops_per_token_window
    element = {"f32": 4.0, "f16": 2.0, "bf16": 2.0}.get(kv_dtype, 1.0)
    return 2.0 * SHARED_ATTENTION * kv_bytes / element, 2.0 * SHARED_ATTENTION * kv_window_bytes / element


def known_shape(n_layers: int, active_parameters: float) -> ModelFacts | None:
    """The known model with these counts: fine-tunes and renamed models keep the shape of what they come from."""
    for shape in known_shapes():
        if shape.n_layers == n_layers and abs(shape.parameters.active / active_parameters - 1.0) < 1e-3:
            return shape
    return None


@cache
def known_shapes() -> tuple[ModelFacts, ...]:
    shapes: Iterable[ModelFacts | None] = (known_model(name) for name in known_names())
    return tuple(shape for shape in shapes if shape is not None)


def publisher(address: str) -> str:
    """Who published a row: owner and repository, or the site."""
    found = re.match(r"https?://(?:github\.com/)?([^/]+(?:/[^/\s]+)?)", address)
    return found[1] if found else address
