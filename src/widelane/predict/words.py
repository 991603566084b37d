"""A prediction in sentences: the verdict, and what it rests on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from widelane.figures import Figure, plural
from widelane.predict.report import PredictReport, Verdict
from widelane.predict.speedup import Speedup

_AS_FAST = 1.005
"""A factor below this is none."""


def verdict_of(gain: Speedup, lanes: int) -> Verdict:
    """What the bounds say; a job that no number of lanes makes faster is not to be split, however close that is."""
    if lanes == 1 and gain.verdict is Verdict.TOO_CLOSE and gain.value < _AS_FAST:
        return Verdict.DO_NOT
    return gain.verdict


def with_words(report: PredictReport) -> PredictReport:
    """The report with its sentences."""
    return replace(report, sentence=_sentence(report), why=[*_why(report)])


def lanes_reason(lanes: int, widths: Sequence[int]) -> str:
    """Why these are the lanes worth using."""
    if len(widths) == 1:
        return "nothing in the job can run side by side" if lanes == 1 else ""
    return f"the fewest that are within 5 % of the fastest of 1 to {widths[-1]}"


def chance_note(runs: int) -> list[str]:
    """What is to be said where chance has a part."""
    return [] if runs == 1 else [f"Lengths or passes vary: every figure is the mean of {runs} runs."]


def _sentence(report: PredictReport) -> str:
    lanes = plural(_whole(report.lanes), "lane")
    times = f"{seconds(report.wall_s)} on {lanes} against {seconds(report.instead_s)} without splitting"
    gain = _gain(report.speedup)
    if report.verdict is Verdict.PARALLELISE:
        return f"Parallelise it: {times}, {gain}."
    if report.verdict is Verdict.TOO_CLOSE:
        return f"Too close to call: {times}, {gain}. Measure both before you build on either."
    if _whole(report.lanes) == 1 and (report.speedup.number or 0.0) > 2 - _AS_FAST:
        return f"Do not split it: no number of lanes makes it faster than {seconds(report.wall_s)} here."
    return f"Do not split it: {times}, {gain}."


def _why(report: PredictReport) -> list[str]:
    found = []
    if (serial := report.serial_tokens.number) is not None:
        found.append(
            f"{serial:,.0f} of {report.job.output_tokens.number or 0:,.0f} tokens must be written one after another, "
            "whatever the width."
        )
    before, after = report.serial_share_one_lane.number, report.serial_share.number
    if before and after and report.most_speedup.number is not None:
        found.append(
            f"What must run alone takes {_percent(before)} of the time on one lane and {_percent(after)} on "
            f"{plural(_whole(report.lanes), 'lane')}: no width makes the job more than "
            f"×{_factor(report.most_speedup.number)} as fast (Amdahl)."
        )
    found += _slots_sentence(report)
    if (pays_from := report.crossover_tokens.number) is not None:
        found.append(
            "Splitting pays whatever the length of the items."
            if pays_from <= 1
            else f"Splitting pays from {pays_from:,.0f} tokens an item: below that, planning costs more than it saves."
        )
    if (solved := report.solved.number) is not None:
        found.append(f"Some try passes in {_percent(solved)} of all cases; width changes when, not whether.")
    return found


def _slots_sentence(report: PredictReport) -> list[str]:
    slots, widest = report.server_slots.number, report.widths[-1].lanes
    if slots is None or widest <= slots:
        return []
    return [f"The server decodes {plural(int(slots), 'request')} together: of {widest:,} lanes the others only wait."]


def seconds(figure: Figure) -> str:
    """A time as a sentence has it: whole seconds from ten up."""
    value = figure.number or 0.0
    return f"{value:,.0f} s" if value >= 9.95 else f"{value:.2g} s"


def _gain(figure: Figure) -> str:
    bounds = "" if figure.low is None else f" (×{_factor(figure.low)} to ×{_factor(figure.high)})"
    return f"×{_factor(figure.number)}{bounds}"


def _factor(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}" if value < 9.995 else f"{value:.1f}"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _whole(figure: Figure) -> int:
    return int(figure.number or 0)
