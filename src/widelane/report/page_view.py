"""What the page shows, in the order and the words in which it shows it. Pure; the template adds only markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from widelane.engines.server_facts import ServerFacts
from widelane.figures import Severity
from widelane.measure.profile import DoctorReport, Knee, Level, Limit, SweepReport
from widelane.report import payload
from widelane.report.chart import Chart, Curve, latency_chart, throughput_chart
from widelane.report.compare import Comparison, best_level, compare
from widelane.report.facts import fact_rows
from widelane.report.key_figure import KeyFigure
from widelane.report.lanes_view import Lanes, lanes_of
from widelane.report.terminal import by_severity, next_step
from widelane.report.text import cell, interval_text, measured_text, number_text, server_text, value_text
from widelane.report.timeline import Timeline
from widelane.report.verdict import client_text, flag_lines, sweep_verdict, unknown_cells

_LIMIT_NOTES = {
    Limit.SLOTS: "too few places to decode in",
    Limit.BANDWIDTH: "every lane adds bytes to read",
    Limit.COMPUTE: "arithmetic sets the step time",
    Limit.KV_POOL: "the cache is full",
    Limit.CLIENT: "the figures are not the server's",
    Limit.UNKNOWN: "the cause of the plateau did not show",
    Limit.NOT_REACHED: "it still rose at the widest level",
}
_PROBLEMS = (Severity.ERROR, Severity.WARNING, Severity.INFO)


def page_context(sweep: SweepReport | None, doctor: DoctorReport | None, before: SweepReport | None) -> dict[str, Any]:
    """Everything the template names, but for the timeline."""
    levels = sweep.levels if sweep is not None else doctor.levels if doctor is not None else ()
    comparison = compare(before, sweep) if before is not None and sweep is not None else None
    findings = by_severity(doctor.findings) if doctor is not None else []
    knee, limit = _knee(sweep, doctor), _limit(sweep, doctor)
    before_curve = Curve(before.levels, before.knee, before.limit) if before is not None and comparison else None
    return {
        "server": _server(sweep, doctor),
        "before_server": None if before is None else server_text(before.server.url, before.server.facts),
        "verdict": _verdict(sweep, doctor, comparison),
        "subverdicts": _subverdicts(sweep, doctor, comparison),
        "key_figures": _key_figures(levels, knee, limit, comparison),
        "limit_evidence": _evidence(sweep, doctor),
        "charts": _charts(Curve(levels, knee, limit), before_curve),
        "comparison": comparison,
        "problems": [finding for finding in findings if finding.severity in _PROBLEMS],
        "healthy": [finding for finding in findings if finding.severity not in _PROBLEMS],
        "next_step": next_step(findings) if findings else None,
        "levels": levels,
        "knee_at": _knee_at(knee),
        "unknown_cells": unknown_cells(levels),
        "doubts": flag_lines(levels),
        "notes": sweep.notes if sweep is not None else (),
        "client": client_text(levels),
        "facts": fact_rows(_facts(sweep, doctor)),
        "made": _made(sweep, doctor, before),
    }


def _verdict(sweep: SweepReport | None, doctor: DoctorReport | None, comparison: Comparison | None) -> str:
    if comparison is not None:
        return comparison.verdict
    if doctor is not None:
        return doctor.verdict
    return sweep_verdict(sweep) if sweep is not None else ""


def _subverdicts(
    sweep: SweepReport | None, doctor: DoctorReport | None, comparison: Comparison | None
) -> list[tuple[str, str]]:
    """What the headline does not say already."""
    rows = []
    if comparison is not None and comparison.detail:
        rows.append(("Comparison", comparison.detail))
    if doctor is not None and comparison is not None:
        rows.append(("Diagnosis", doctor.verdict))
    if sweep is not None and (doctor is not None or comparison is not None):
        rows.append(("After" if comparison is not None else "Sweep", sweep_verdict(sweep)))
    return rows


def _key_figures(
    levels: Sequence[Level], knee: Knee | None, limit: Limit, comparison: Comparison | None
) -> list[KeyFigure]:
    figures = []
    if comparison is not None and comparison.ratio.number is not None:
        interval = interval_text(comparison.ratio)
        figures.append(KeyFigure("After ÷ before", f"×{comparison.ratio.number:.2f}", "", _interval_note(interval)))
    best = best_level(levels)
    if best is not None and best.output_tok_s.number is not None:
        interval = interval_text(best.output_tok_s)
        value = measured_text(best.output_tok_s.number)
        figures.append(KeyFigure(f"Best, at {best.concurrency} lanes", value, "tok/s", _interval_note(interval)))
    if knee is not None and knee.concurrency.number is not None and limit is not Limit.NOT_REACHED:
        figures.append(
            KeyFigure("Knee", number_text(knee.concurrency.number), "lanes", "the least that gives (nearly) all")
        )
    if levels:
        figures.append(KeyFigure("Limit", str(limit).replace("-", " "), "", _LIMIT_NOTES[limit]))
        figures.append(_alone(levels[0]))
    return figures


def _alone(level: Level) -> KeyFigure:
    name = "One request alone" if level.concurrency == 1 else f"At {level.concurrency}"
    note = f"first token after {value_text(level.ttft_s.p50)}" if level.ttft_s.p50.value is not None else ""
    return KeyFigure(name, cell(level.output_tok_s), "tok/s", note)


def _interval_note(interval: str) -> str:
    return f"95 %: {interval}" if interval else "no interval: measured once"


def _charts(curve: Curve, before: Curve | None) -> list[Chart]:
    if not curve.levels:
        return []
    drawn = [
        throughput_chart(curve, before),
        latency_chart("ttft", "Time to first token (TTFT), s", curve.levels, lambda level: level.ttft_s),
        latency_chart("tpot", "Time per output token (TPOT), ms", curve.levels, lambda level: level.tpot_s, scale=1e3),
    ]
    return [chart for chart in drawn if chart is not None]


def lanes_view(sweep: SweepReport | None, before: SweepReport | None) -> Lanes | None:
    """The drawings of all runs; None when no calls were kept."""
    runs: list[tuple[str, list[Timeline]]] = []
    for name, one in (("Before", before), ("After" if before is not None else "Sweep", sweep)):
        drawn = payload.timelines(one) if one is not None else []
        if drawn:
            runs.append((name, drawn))
    if not runs or sweep is None:
        return None
    run = len(runs) - 1
    return lanes_of(runs, first=(run, _telling_level(runs[run][1], sweep)))


def _telling_level(drawn: Sequence[Timeline], sweep: SweepReport) -> int:
    """The drawing shown first: the narrowest level beyond the knee, where waiting begins; else the widest."""
    knee_at = _knee_at(sweep.knee)
    if knee_at is not None and sweep.limit is not Limit.NOT_REACHED:
        for index, timeline in enumerate(drawn):
            if timeline.label.isdecimal() and int(timeline.label) >= 2 * knee_at:
                return index
    return len(drawn) - 1


def _made(
    sweep: SweepReport | None, doctor: DoctorReport | None, before: SweepReport | None
) -> list[tuple[str, list[tuple[str, str]]]]:
    """How each document was made: what would make it again."""
    groups = []
    for name, one in (("Before", before), ("Sweep" if before is None else "After", sweep)):
        if one is None:
            continue
        work = one.workload
        rows = [
            ("schema", f"{one.schema.name} {one.schema.version}"),
            (
                "workload",
                f"{work.prompt_tokens:,} prompt + {work.output_tokens:,} output tokens a call, {work.endpoint}",
            ),
            ("seed of the prompts", str(work.seed)),
            ("complete", "yes" if one.complete else "no, cut short"),
            *one.made.items(),
        ]
        groups.append((name, rows + ([("run", one.run_dir)] if one.run_dir else [])))
    if doctor is not None:
        groups.append(("Doctor", [("schema", f"{doctor.schema.name} {doctor.schema.version}"), *doctor.made.items()]))
    return groups


def _server(sweep: SweepReport | None, doctor: DoctorReport | None) -> str:
    url = sweep.server.url if sweep is not None else doctor.server if doctor is not None else ""
    return server_text(url, _facts(sweep, doctor))


def _facts(sweep: SweepReport | None, doctor: DoctorReport | None) -> ServerFacts:
    if sweep is not None:
        return sweep.server.facts
    assert doctor is not None
    return doctor.facts


def _knee(sweep: SweepReport | None, doctor: DoctorReport | None) -> Knee | None:
    return sweep.knee if sweep is not None else doctor.knee if doctor is not None else None


def _knee_at(knee: Knee | None) -> int | None:
    return None if knee is None or knee.concurrency.number is None else int(knee.concurrency.number)


def _limit(sweep: SweepReport | None, doctor: DoctorReport | None) -> Limit:
    return sweep.limit if sweep is not None else doctor.limit if doctor is not None else Limit.NOT_REACHED


def _evidence(sweep: SweepReport | None, doctor: DoctorReport | None) -> str:
    return sweep.limit_evidence if sweep is not None else doctor.limit_evidence if doctor is not None else ""
