"""The charts of a plan against batch: throughput, and the parts of a step. Pure geometry; the x axis is log2."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from widelane.plan.report import PlanReport, StepPoint
from widelane.report.axis import Frame, Tick, frame_of, linear_ticks, x_ticks
from widelane.report.drawing import band_path, line_path
from widelane.report.plan_chart import (
    Hover,
    Layer,
    Mark,
    PlanChart,
    Whisker,
    interval,
    is_drawn,
    label_room,
    line_series,
    upper,
)
from widelane.report.plan_words import shown_parts
from widelane.report.text import figure_text, number_text, seconds_text

_WIDTH, _HEIGHT = 560.0, 372.0
_WHISKER_GAP = 12.0
_FEWEST = 3
"""Fewer points than these are no picture: then every step is drawn."""


def throughput_chart(report: PlanReport) -> PlanChart | None:
    """Tokens/s of the whole batch, with its interval. None where fewer than two batches are known."""
    steps = [step for step in _drawn(report) if is_drawn(step.output_tok_s)]
    if len(steps) < 2:
        return None
    top = max(upper(step.output_tok_s) for step in steps) * 1.12
    frame, y_ticks = _large_frame(steps, top)

    def y(value: float) -> float:
        return frame.y(value / top)

    def x(step: StepPoint) -> float:
        return frame.x(step.batch)

    series = line_series("total", steps, lambda step: step.output_tok_s, x, y, _total_label)
    marks, pool_ends = _marks(report, frame)
    return PlanChart(
        name="throughput",
        title="Tokens per second, all requests together",
        x_title="requests in the batch",
        frame=frame,
        x_ticks=x_ticks([step.batch for step in steps], frame),
        y_ticks=y_ticks,
        series=[series],
        hovers=_hovers(steps, frame, _total_label),
        marks=marks,
        pool_ends=pool_ends,
        ideal=_ideal(steps, frame, top),
    )


def step_chart(report: PlanReport) -> PlanChart | None:
    """Milliseconds of one step as a stack of its parts. None where fewer than two batches are known."""
    steps = [step for step in _drawn(report) if is_drawn(step.step_s)]
    if len(steps) < 2:
        return None
    top = max(upper(step.step_s) for step in steps) * 1e3 * 1.12
    frame, y_ticks = _large_frame(steps, top)

    def y(value_ms: float) -> float:
        return frame.y(value_ms / top)

    marks, pool_ends = _marks(report, frame)
    doubled = next((mark for mark in marks if mark.css == "doubling"), None)
    alone_ms = (steps[0].step_s.number or 0.0) * 1e3
    marks_double = doubled is not None and steps[0].batch == 1
    return PlanChart(
        name="step",
        title="Length of one decode step, ms",
        x_title="requests in the batch",
        frame=frame,
        x_ticks=x_ticks([step.batch for step in steps], frame),
        y_ticks=y_ticks,
        layers=_layers(steps, frame, y),
        whiskers=_whiskers(steps, frame, y),
        hovers=_hovers(steps, frame, _parts_label),
        marks=marks,
        pool_ends=pool_ends,
        level=y(2 * alone_ms) if marks_double else None,
        level_until=0.0 if doubled is None else doubled.at,
    )


def _drawn(report: PlanReport) -> list[StepPoint]:
    """The steps up to four times the widest batch that matters: far beyond it the rest would be drawn flat."""
    marked = (report.sequences_that_fit.typical, report.width.doubling_batch, report.recommendation.lanes)
    widest = max((figure.number or 0.0 for figure in marked), default=0.0)
    steps = sorted(report.steps, key=lambda step: step.batch)
    near = [step for step in steps if step.batch <= 4 * widest]
    return near if len(near) >= _FEWEST else steps


def _large_frame(steps: Sequence[StepPoint], top: float) -> tuple[Frame, list[Tick]]:
    """The plot with its y axis from 0 to `top`, the labels' own width left of it."""
    ticks = linear_ticks(top)
    left = label_room(ticks)
    frame = frame_of([step.batch for step in steps], _WIDTH, _HEIGHT, right=14, left=left)
    return frame, [Tick(frame.y(value / top), f"{value:,.10g}") for value in ticks]


def _marks(report: PlanReport, frame: Frame) -> tuple[list[Mark], float | None]:
    """The pool's end, the doubling batch and the recommended lanes, each on a line of text of its own."""
    fit = report.sequences_that_fit.typical
    typical = fit.number if is_drawn(fit) else None
    named = [
        ("pool", typical, "pool full at"),
        ("doubling", report.width.doubling_batch.number, "step doubled at"),
        ("lanes", report.recommendation.lanes.number, "recommended:"),
    ]
    if typical is not None and typical < frame.narrowest:
        return [Mark("pool", frame.left, "the pool holds none", 0, False)], frame.left - 5
    marks = [
        Mark(css, frame.x(at), f"{words} {_whole(at)}", row, frame.x(at) > (frame.left + frame.right) / 2)
        for row, (css, at, words) in enumerate(named)
        if at is not None and frame.narrowest <= at <= frame.widest
    ]
    if typical is None or typical >= frame.widest:
        return marks, None
    return marks, frame.x(typical)


def _whole(value: float) -> str:
    return number_text(round(value) if value >= 10 else value)


def _hovers(steps: Sequence[StepPoint], frame: Frame, words: Callable[[StepPoint], str]) -> list[Hover]:
    """One stretch a batch, its edges halfway to the neighbours."""
    places = [frame.x(step.batch) for step in steps]
    edges = [frame.left, *((a + b) / 2 for a, b in itertools.pairwise(places)), frame.right]
    return [
        Hover(edges[index], edges[index + 1] - edges[index], words(step)) for index, step in enumerate(steps)
    ]  # fmt: skip


def _total_label(step: StepPoint) -> str:
    beyond = "" if step.fits else "; the pool does not hold that many"
    return (
        f"batch {step.batch:,}: {figure_text(step.output_tok_s)} together, "
        f"{figure_text(step.per_request_tok_s)} each{beyond}"
    )


def _parts_label(step: StepPoint) -> str:
    parts = [f"{name} {seconds_text(of(step))}" for _, name, of in shown_parts([step])]
    return f"batch {step.batch:,}: {figure_text(step.step_s)} = {' + '.join(parts)}"


def _layers(steps: Sequence[StepPoint], frame: Frame, y: Callable[[float], float]) -> list[Layer]:
    places = [frame.x(step.batch) for step in steps]
    below = [0.0] * len(steps)
    layers = []
    for key, name, of in shown_parts(steps):
        above = [bottom + of(step) * 1e3 for bottom, step in zip(below, steps, strict=True)]
        upper = [(x, y(value)) for x, value in zip(places, above, strict=True)]
        lower = [(x, y(value)) for x, value in zip(places, below, strict=True)]
        layers.append(Layer(f"part-{key}", name, band_path(upper, lower)))
        below = above
    return layers


def _whiskers(steps: Sequence[StepPoint], frame: Frame, y: Callable[[float], float]) -> list[Whisker]:
    """Intervals of the steps, but not of two batches so near each other that they would read as one."""
    found: list[Whisker] = []
    for step in steps:
        x, bounds = frame.x(step.batch), interval(step.step_s)
        if bounds is not None and not (found and x - found[-1].x < _WHISKER_GAP):
            found.append(Whisker(x, y(bounds[1] * 1e3), y(bounds[0] * 1e3)))
    return found


def _ideal(steps: Sequence[StepPoint], frame: Frame, top: float) -> str:
    """What the narrowest batch would give if every further request gave as much, up to the plot's top."""
    alone = (steps[0].output_tok_s.number or 0.0) / steps[0].batch
    if alone <= 0:
        return ""
    end = min(float(frame.widest), top / alone)
    widths = [frame.narrowest * (end / frame.narrowest) ** (step / 32) for step in range(33)]
    return line_path([(frame.x(width), frame.y(width * alone / top)) for width in widths])
