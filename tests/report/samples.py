"""Documents for the tests: small ones made by hand, and ones made of the recorded sweeps."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from widelane import metrics
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure, Finding, Fix, Origin, Severity, unknown
from widelane.measure.profile import (
    ClientShare,
    DoctorReport,
    Knee,
    Level,
    Limit,
    Percentiles,
    Server,
    SweepReport,
    Workload,
)
from widelane.records import Outcome, Span

MS = 1_000_000
S = 1_000_000_000


def measured(value: float, unit: str, low: float | None = None, high: float | None = None) -> Figure:
    return Figure(value, unit, Origin.MEASURED, low=low, high=high)


def percentiles(p50: float, p90: float | None = None, p99: float | None = None) -> Percentiles:
    p90 = p50 if p90 is None else p90
    return Percentiles(p50=measured(p50, "s"), p90=measured(p90, "s"), p99=measured(p90 if p99 is None else p99, "s"))


def no_percentiles(reason: str) -> Percentiles:
    figure = unknown("s", reason, Origin.MEASURED)
    return Percentiles(p50=figure, p90=figure, p99=figure)


def client(share: float = 0.02, lag_s: float = 0.0008, *, spoiled: bool = False) -> ClientShare:
    return ClientShare(cpu_share=measured(share, "cores"), lag_p99_s=measured(lag_s, "s"), spoiled=spoiled)


def level(concurrency: int, tok_s: float, half: float | None = None, **changes: Any) -> Level:
    fields: dict[str, Any] = {
        "concurrency": concurrency,
        "output_tok_s": measured(
            tok_s, "tok/s", None if half is None else tok_s - half, None if half is None else tok_s + half
        ),
        "ttft_s": percentiles(0.4, 0.5, 0.6),
        "tpot_s": percentiles(0.05, 0.06, 0.07),
        "icl_s": percentiles(0.05),
        "e2e_s": percentiles(2.0),
        "queue_share": measured(0.0, ""),
        "decoding_together": measured(min(4, concurrency), "calls"),
        "requests": 4 * concurrency,
        "repeats": 3,
        "window_s": 8.0,
        "client": client(),
    }
    return Level(**(fields | changes))


def facts(**changes: Any) -> ServerFacts:
    hidden = "not told over HTTP: give the start command with --launch"
    fields: dict[str, Any] = {
        "engine": "llama.cpp",
        "version": Figure("b11549", "", Origin.READ),
        "model": Figure("Qwen3.6-27B Q4_K_M", "", Origin.READ),
        "slots": Figure(4, "slots", Origin.READ),
        "context_per_slot": Figure(8192, "tokens", Origin.READ),
        "context_trained": Figure(262144, "tokens", Origin.READ),
        "kv_dtype": Figure("f16", "", Origin.INFERRED),
        "state_dtype": unknown("", hidden),
        "pool_tokens": unknown("tokens", hidden),
        "unified_pool": Figure(False, "", Origin.READ),
        "speculation": Figure(False, "", Origin.READ),
        "prefix_cache": Figure(True, "", Origin.READ),
        "queue_length": Figure(0, "requests", Origin.READ),
        "reasoning_parser": Figure("deepseek", "", Origin.READ),
        "tool_parser": unknown("", "the template has no tools"),
        "weights_bytes": Figure(17_500_000_000, "bytes", Origin.READ),
        "parameters": Figure(27_000_000_000, "parameters", Origin.READ),
        "launch_command": unknown("", hidden),
    }
    return ServerFacts(**(fields | changes))


def sweep(levels: Sequence[Level], **changes: Any) -> SweepReport:
    fields: dict[str, Any] = {
        "server": Server(url="http://127.0.0.1:8080/v1", facts=facts()),
        "workload": Workload(prompt_tokens=40, output_tokens=24, endpoint="chat", seed=7),
        "levels": levels,
        "knee": Knee(concurrency=measured(4, "requests"), output_tok_s=measured(34.1, "tok/s", 33.5, 34.7)),
        "limit": Limit.SLOTS,
        "limit_evidence": "TTFT grows by one service time a wave (0.7 s at 4, 9.8 s at 8) while TPOT stays at 50 ms.",
        "made": {"seed": "7", "version": "0.1.0", "command": "widelane sweep 127.0.0.1:8080"},
        "run_dir": "/home/ada/.local/share/widelane/runs/2026-02-03-1",
    }
    return SweepReport(**(fields | changes))


def np4() -> SweepReport:
    """Six levels of a server with four slots."""
    return sweep(
        [
            level(1, 10.2, 0.1),
            level(2, 19.6, 0.2),
            level(4, 34.1, 0.6),
            level(8, 34.0, 0.4, ttft_s=percentiles(9.8, 10, 11)),
            level(16, 33.8, 0.5, ttft_s=percentiles(28.1, 30, 33)),
            level(32, 33.9, 0.7, ttft_s=no_percentiles("no call began within the window"), failures={"overloaded": 2}),
        ]
    )


FINDINGS = (
    Finding("reasoning-leak", Severity.OK, "The reasoning is separated from the answer", "<think> text arrived apart"),
    Finding(
        "too-few-slots",
        Severity.ERROR,
        "The server decodes 4 requests at a time",
        "4 slots, 28 of 32 requests queued.",
        Fix("-np 32 -c 262144", "llama-server -m model.gguf -np 32 -c 262144", "llama.cpp", "b11549"),
        Figure(165.0, "tok/s at 32", Origin.PREDICTED, low=150.0, high=180.0),
    ),
    Finding(
        "kv-wider-than-needed",
        Severity.WARNING,
        "The KV cache is f16",
        "f16 KV (inferred from the launch line).",
        Fix("-ctk q8_0 -ctv q8_0 -fa on", None, "llama.cpp", "b11549"),
        Figure("+31 % context", "", Origin.PREDICTED),
    ),
    Finding("tool-calls-in-text", Severity.NOT_CHECKED, "The template has no tools", "No `tools` in [template]."),
)


def doctor(**changes: Any) -> DoctorReport:
    report = np4()
    fields: dict[str, Any] = {
        "server": report.server.url,
        "verdict": "This server decodes 4 requests at a time; your 5th waits. "
        "One flag is worth about 5× on this machine.",
        "facts": facts(),
        "findings": FINDINGS,
        "limit": Limit.SLOTS,
        "limit_evidence": "TTFT grows by one service time a wave, TPOT does not",
        "levels": report.levels,
        "knee": report.knee,
        "made": {"seed": "7", "version": "0.1.0"},
    }
    return DoctorReport(**(fields | changes))


# --- recorded sweeps


def recorded_spans(recorded_level: Mapping[str, Any]) -> list[Span]:
    """The calls of one recorded burst; every request has its own lane, since all start together."""
    spans = []
    for index, request in enumerate(recorded_level["requests"]):
        first_ms = request["first_ms"]
        ok = request["status"] == 200
        spans.append(
            Span(
                key=f"call-{index}",
                role="measure",
                lane=index,
                queued_ns=round(request["start_ms"] * MS),
                started_ns=round(request["start_ms"] * MS),
                first_token_ns=None if first_ms is None else round(first_ms * MS),
                ended_ns=round(request["end_ms"] * MS),
                output_tokens=request["tokens"],
                outcome=Outcome.OK if ok else Outcome.FAILED,
                error=None if ok else f"status {request['status']}",
            )
        )
    return spans


def recorded_level(recorded: Mapping[str, Any]) -> Level:
    requests = [request for request in recorded["requests"] if request["status"] == 200]

    def spread(values: Sequence[float]) -> Percentiles:
        p50, p90, p99 = (metrics.percentile_figure(values, q, "s", "no calls") for q in (0.5, 0.9, 0.99))
        return Percentiles(p50=p50, p90=p90, p99=p99)

    ttft = [(request["first_ms"] - request["start_ms"]) / 1e3 for request in requests]
    e2e = [(request["end_ms"] - request["start_ms"]) / 1e3 for request in requests]
    tpot = [
        (request["chunk_ms"][-1] - request["first_ms"]) / 1e3 / (request["tokens"] - 1)
        for request in requests
        if request["tokens"] > 1
    ]
    tok_s = recorded["aggregate_tok_s"]
    return level(
        recorded["concurrency"],
        tok_s,
        tok_s * 0.03,
        ttft_s=spread(ttft),
        tpot_s=spread(tpot),
        e2e_s=spread(e2e),
        requests=len(requests),
    )


def recorded_sweep(path: Path, *, slots: int, knee_at: int, limit: Limit) -> SweepReport:
    """A document made of one recording; knee and limit are given, since finding them is not the report's part."""
    recorded = json.loads(path.read_bytes())
    levels = [recorded_level(one) for one in recorded["levels"]]
    at_knee = next((one for one in levels if one.concurrency == knee_at), levels[-1])
    return sweep(
        levels,
        server=Server(
            url="http://127.0.0.1:8080/v1", facts=facts(slots=Figure(slots, "slots", Origin.READ), engine=path.stem)
        ),
        knee=Knee(concurrency=measured(at_knee.concurrency, "requests"), output_tok_s=at_knee.output_tok_s),
        limit=limit,
        timeline={str(one["concurrency"]): recorded_spans(one) for one in recorded["levels"]},
    )


# --- made-up runs


def closed_loop(lanes: int, calls_a_lane: int, *, slots: int, seed: int = 1) -> list[Span]:
    """A closed loop of `lanes` callers against a first-come server with `slots` places."""
    rng = random.Random(seed)
    free_at = [0] * slots
    ready = [(rng.randrange(20 * MS), lane, 0) for lane in range(lanes)]
    spans: list[Span] = []
    while ready:
        ready.sort()
        queued, lane, done = ready.pop(0)
        slot = min(range(slots), key=lambda index: free_at[index])
        served = max(queued, free_at[slot])
        first = served + rng.randint(60, 160) * MS
        tokens = rng.randint(20, 120)
        ended = first + tokens * rng.randint(17, 23) * MS
        outcome = rng.choices((Outcome.OK, Outcome.FAILED, Outcome.CANCELLED), (0.96, 0.02, 0.02))[0]
        if outcome is not Outcome.OK:
            ended = first + (ended - first) // 2
        free_at[slot] = ended
        spans.append(
            Span(
                key=f"{lane}-{done}",
                role="measure",
                lane=lane,
                queued_ns=queued,
                started_ns=queued + MS,
                first_token_ns=first,
                ended_ns=ended,
                prompt_tokens=40,
                output_tokens=tokens,
                outcome=outcome,
                error="connection_lost" if outcome is Outcome.FAILED else None,
            )
        )
        if done + 1 < calls_a_lane:
            ready.append((ended + MS, lane, done + 1))
    return spans


def job_spans() -> list[Span]:
    """Plan, five workers on six lanes (one fails and is repeated, one is cancelled), verify, integrate."""

    def span(key: str, role: str, lane: int, times_ms: Sequence[int], **more: Any) -> Span:
        queued, started, first, ended = (round(one * MS) for one in times_ms)
        return Span(
            key=key,
            role=role,
            lane=lane,
            queued_ns=queued,
            started_ns=started,
            first_token_ns=first,
            ended_ns=ended,
            **({"prompt_tokens": 900, "output_tokens": (ended - first) // (20 * MS)} | more),
        )

    return [
        span("plan", "plan", 0, (0, 0, 700, 4200)),
        span("work-0", "work", 0, (4200, 4250, 5000, 11200), parent="plan", cached_tokens=512),
        span("work-1", "work", 1, (4200, 4250, 5100, 9100), parent="plan"),
        span("work-2", "work", 2, (4200, 4250, 5200, 13900), parent="plan", attempts=2),
        span("work-3", "work", 3, (4200, 4250, 5250, 6900), parent="plan", outcome=Outcome.FAILED,
             error="connection_lost", detail="the server closed the connection"),
        span("work-3b", "work", 3, (6900, 7600, 8100, 12600), parent="work-3"),
        span("work-4", "work", 4, (4200, 6200, 7000, 10400), parent="plan", outcome=Outcome.CANCELLED),
        span("work-5", "work", 5, (4200, 6200, 7100, 12100), parent="plan"),
        span("verify-1", "verify", 1, (9100, 9150, 9500, 10300), parent="work-1"),
        span("verify-2", "verify", 2, (13900, 13950, 14300, 15600), parent="work-2"),
        span("integrate", "integrate", 0, (15600, 15620, 16900, 21800), parent="verify-2"),
    ]  # fmt: skip
