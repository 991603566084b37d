"""Rows of a sweep written by hand, for tests of what is concluded from them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.measure.facts import facts
from widelane.figures import Figure, Origin, unknown
from widelane.measure.profile import (
    ClientShare,
    Knee,
    Level,
    Limit,
    Percentiles,
    Server,
    SweepReport,
    Workload,
)


def measured(value: float, unit: str, low: float | None = None, high: float | None = None) -> Figure:
    return Figure(value, unit, Origin.MEASURED, low, high)


def percentiles(p50: float) -> Percentiles:
    return Percentiles(p50=measured(p50, "s"), p90=measured(p50, "s"), p99=measured(p50, "s"))


def level(
    concurrency: int,
    tok_s: float | None,
    *,
    low: float | None = None,
    high: float | None = None,
    together: int | None = None,
    ttft_s: float = 0.1,
    tpot_s: float = 0.02,
    spoiled: bool = False,
    flags: Sequence[str] = (),
    codes: Sequence[str] = (),
) -> Level:
    rate = unknown("tok/s", "nothing finished") if tok_s is None else measured(tok_s, "tok/s", low, high)
    return Level(
        concurrency=concurrency,
        output_tok_s=rate,
        ttft_s=percentiles(ttft_s),
        tpot_s=percentiles(tpot_s),
        icl_s=percentiles(tpot_s),
        e2e_s=percentiles(1.0),
        queue_share=measured(0.0, ""),
        decoding_together=measured(concurrency if together is None else together, "calls"),
        requests=8,
        client=ClientShare(
            cpu_share=measured(0.9 if spoiled else 0.02, ""), lag_p99_s=measured(0.001, "s"), spoiled=spoiled
        ),
        flags=flags,
        codes=codes,
    )


def sweep_report(
    levels: Sequence[Level], limit: Limit, *, knee: int | None = None, evidence: str = "Seen."
) -> SweepReport:
    best = max(levels, key=lambda row: row.output_tok_s.number or 0.0)
    return SweepReport(
        server=Server(url="http://test", facts=facts()),
        workload=Workload(prompt_tokens=8, output_tokens=24, endpoint="completions", seed=0),
        levels=levels,
        knee=None if knee is None else Knee(concurrency=measured(knee, "calls"), output_tok_s=best.output_tok_s),
        limit=limit,
        limit_evidence=evidence,
    )
