"""Open-loop runs among measured serving rows, each with what one request alone did in its configuration."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from step_rows import device_of
from widelane.errors import UsageError
from widelane.facts.devices.device import Device
from widelane.facts.find_model import find_model
from widelane.facts.model import ModelFacts
from widelane.facts.weights.quant import find_format
from widelane.plan.engine_traits import Kernels, kernels_of
from widelane.plan.pool.make import POOL_ENGINES
from widelane.plan.speculation import acceptance_of_length

FED_PROMPT = 4096
"""Prompt length of the one prefill rate that is fed."""
NEAR = 1.25
"""A prompt counts as such up to so many times longer or shorter."""
PEAK_OVERCOUNT = 0.9
"""`peak_concurrency` counts calls that were in flight at some time of the same second, so one that ended and the one
sent in its place both count: of a limited client's 25 it shows 27 or 28."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """All that the simulator is told of a configuration's speed: one request by itself.

    Attributes:
        step_s: a decode step that holds `context_tokens`.
        prefill_tok_s: of a prompt of `prompt_tokens`.
    """

    step_s: float
    context_tokens: float
    prefill_tok_s: float
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the run gave. None where it was not reported."""

    output_tok_s: float | None
    tpot_s: float | None
    ttft_s: float | None
    tpot_p50_s: float | None
    ttft_p50_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """One open-loop run.

    Attributes:
        prompt_tokens, output_tokens: mean of its calls; how they spread is not told.
        rate, burstiness: arrivals a second, and the shape of the gamma distribution of their gaps (1: Poisson).
        in_flight: the most calls that the client had in flight, None where it was not limited.
        step_tokens, largest_graph, utilization: `--max-num-batched-tokens`, `--max-cudagraph-capture-size`,
            `--gpu-memory-utilization`; None for the engine's default.
    """

    id: str
    configuration: str
    test: str
    device: Device
    engine: str
    engine_version: str | None
    model: ModelFacts
    kv_dtype: str | None
    slots: int | None
    draft_depth: int
    acceptance: tuple[float, ...]
    step_tokens: int | None
    largest_graph: int | None
    utilization: float | None
    prompt_tokens: float
    output_tokens: float
    rate: float
    burstiness: float
    calls: int
    in_flight: int | None
    alone: Alone
    measured: Measured


def read_open_loops(path: Path) -> tuple[list[OpenLoop], Counter[str]]:
    """The open-loop runs of a rows file, and how many were left out for which reason."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    runs: list[OpenLoop] = []
    left_out: Counter[str] = Counter()
    for row in rows:
        if row.get("measurement") != "open_loop":
            continue
        found = _run(row, rows)
        if isinstance(found, str):
            left_out[found] += 1
        else:
            runs.append(found)
    return runs, left_out


def _run(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> OpenLoop | str:
    """The run of a row, or why there is none."""
    if row.get("suspect"):
        return "marked suspect"
    if row.get("engine") not in POOL_ENGINES:
        return "the engine is none that is simulated"
    if any(not row.get(key) for key in ("request_rate", "num_prompts", "prompt_tokens", "output_tokens")):
        return "arrivals or lengths are not told"
    alone = _alone([one for one in rows if one["config_id"] == row["config_id"]])
    if alone is None:
        return "no single-request decode rate and 4k prefill rate of its configuration"
    quant = (row.get("quant") or "").split(" ")[0]
    try:
        model = find_model(
            row["model"], quant=quant if find_format(quant) else None, weights_bytes=row.get("weight_bytes")
        )
    except UsageError:
        return "the model's shape is not known"
    depth, kept = row.get("spec_depth") or 0, row.get("accept_len")
    if depth and not kept:
        return "drafts without an acceptance"
    device = device_of(row)
    if not device.memory_bytes:
        return "the device's memory is not known"
    return OpenLoop(
        id=row["id"],
        configuration=row["config_id"],
        test=row.get("test") or "",
        device=device,
        engine=row["engine"],
        engine_version=row.get("engine_version"),
        model=model,
        kv_dtype=_kv_dtype(row, device),
        slots=row.get("max_num_seqs"),
        draft_depth=depth,
        acceptance=acceptance_of_length(kept, depth) if depth and kept else (),
        step_tokens=_flag(row, "--max-num-batched-tokens"),
        largest_graph=_flag(row, "--max-cudagraph-capture-size"),
        utilization=row.get("gpu_memory_utilization"),
        prompt_tokens=row["prompt_tokens"],
        output_tokens=row["output_tokens"],
        rate=row["request_rate"],
        burstiness=row.get("burstiness") or 1.0,
        calls=row["num_prompts"],
        in_flight=in_flight_limit(row),
        alone=alone,
        measured=Measured(
            output_tok_s=row.get("decode_tok_s_total"),
            tpot_s=_seconds(row.get("tpot_ms")),
            ttft_s=_seconds(row.get("ttft_ms")),
            tpot_p50_s=_seconds(row.get("tpot_p50_ms")),
            ttft_p50_s=_seconds(row.get("ttft_p50_ms")),
        ),
    )


def in_flight_limit(row: dict[str, Any]) -> int | None:
    """The client's own limit on calls in flight, where its peak shows one.

    Without a limit all calls were sent by `num_prompts / rate`; of these about the share of the run's length that was
    over by then had ended, and the rest was in flight. A peak below half of that was the client's doing.
    """
    peak, length_s = row.get("peak_concurrency"), row.get("duration_s")
    if not peak or not length_s:
        return None
    sending_s = row["num_prompts"] / row["request_rate"]
    in_flight = row["num_prompts"] * (1.0 - sending_s / length_s)
    return max(1, round(PEAK_OVERCOUNT * peak)) if peak < 0.5 * in_flight else None


def _alone(rows: Sequence[dict[str, Any]]) -> Alone | None:
    """The single request whose prompt is nearest to FED_PROMPT."""
    found = [
        row
        for row in rows
        if row.get("concurrency") == 1
        and row.get("step_ms")
        and row.get("prefill_tok_s")
        and not row.get("suspect")
        and FED_PROMPT / NEAR <= (row.get("prompt_tokens") or 0) <= FED_PROMPT * NEAR
    ]
    if not found:
        return None
    row = min(found, key=lambda one: abs(one["prompt_tokens"] - FED_PROMPT))
    return Alone(
        step_s=row["step_ms"] / 1e3,
        context_tokens=row.get("context_tokens") or row["prompt_tokens"],
        prefill_tok_s=row["prefill_tok_s"],
        prompt_tokens=row["prompt_tokens"],
    )


def _kv_dtype(row: dict[str, Any], device: Device) -> str | None:
    """The cache type where it is not the engine's default."""
    stated = row.get("kv_dtype")
    own = {"bf16", "f16", "auto", None} if kernels_of(device, row["engine"]) is Kernels.PAGED else {"f16", "auto", None}
    return None if stated in own else stated


def _flag(row: dict[str, Any], flag: str) -> int | None:
    found = re.search(rf"{flag}[ =](\d+)", row.get("engine_args") or "")
    return int(found[1]) if found else None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
