"""Geometry of the charts against concurrency: from levels to points, paths and ticks in the units of an SVG drawing.

Pure. The x axis is log2 of the concurrency; the template only writes what stands here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from widelane.figures import Figure
from widelane.measure.profile import Knee, Level, Limit, Percentiles
from widelane.report.axis import Frame, Tick, frame_of, linear_ticks, log_ticks, x_ticks
from widelane.report.drawing import Point, Series, band_path, line_path, spread_labels
from widelane.report.text import figure_text, number_text


@dataclass(frozen=True, slots=True)
class Curve:
    """What a sweep, full or quick, says of throughput against concurrency."""

    levels: Sequence[Level]
    knee: Knee | None
    limit: Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One drawing.

    Attributes:
        knee: where the knee is marked, None when there is none.
        plateau: height at which the limit is marked, beginning at the knee.
        ideal: path of the line that throughput would follow if lanes cost nothing, and where it leaves the plot.
    """

    name: str
    title: str
    frame: Frame
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    series: Sequence[Series]
    knee: Tick | None = None
    plateau: Tick | None = None
    ideal: str = ""
    ideal_leaves_at: float | None = None


def throughput_chart(after: Curve, before: Curve | None = None) -> Chart | None:
    """Output tokens/s against concurrency, with intervals, knee, limit and the ideal line. None without figures."""
    both = (("before", before), ("after", after))
    shown = [(css, curve) for css, curve in both if curve is not None and _known(curve.levels, _tok_s)]
    if not shown:
        return None
    levels = [level for _, curve in shown for level in curve.levels]
    top = max(_upper(level.output_tok_s) for level in _known(levels, _tok_s)) * 1.18
    ticks = linear_ticks(top)
    widths = [level.concurrency for level in levels]
    frame = frame_of(widths, 660, 420, right=16)

    def y(value: float) -> float:
        return frame.y(value / top)

    series = [_throughput_series(css, curve.levels, frame, y) for css, curve in shown]
    ideal, leaves_at = _ideal(shown[-1][1].levels, frame, top)
    knee, plateau = _marks(shown[-1][1], frame, y)
    return Chart(
        frame=frame,
        name="throughput",
        title="Output tokens per second",
        x_ticks=x_ticks(widths, frame),
        y_ticks=[Tick(y(value), f"{value:,.10g}") for value in ticks],
        series=series,
        knee=knee,
        plateau=plateau,
        ideal=ideal,
        ideal_leaves_at=leaves_at,
    )


def latency_chart(
    name: str, title: str, levels: Sequence[Level], of: Callable[[Level], Percentiles], *, scale: float = 1.0
) -> Chart | None:
    """p50, p90 and p99 of one latency against concurrency on a logarithmic axis. None without figures.

    Args:
        scale: from seconds to the unit in `title`, 1000 for milliseconds.
    """
    picks: list[tuple[str, Callable[[Level], Figure]]] = [
        ("p99", lambda level: of(level).p99),
        ("p90", lambda level: of(level).p90),
        ("p50", lambda level: of(level).p50),
    ]
    values = [
        number * scale
        for _, pick in picks
        for level in levels
        if (number := pick(level).number) is not None and number > 0
    ]
    if not values:
        return None
    ticks = log_ticks(min(values), max(values))
    low, high = math.log10(min(ticks[0], min(values))), math.log10(max(ticks[-1], max(values)))
    widths = [level.concurrency for level in levels]
    frame = frame_of(widths, 460, 214, right=40)

    def y(value: float) -> float:
        return frame.y((math.log10(value) - low) / (high - low))

    series = [_percentile_series(label, pick, levels, frame, y, scale) for label, pick in picks]
    return Chart(
        frame=frame,
        name=name,
        title=title,
        x_ticks=x_ticks(widths, frame),
        y_ticks=[Tick(y(value), f"{value:,.10g}") for value in ticks],
        series=spread_labels([one for one in series if one.points]),
    )


def _throughput_series(css: str, levels: Sequence[Level], frame: Frame, y: Callable[[float], float]) -> Series:
    known = _known(levels, _tok_s)
    points = [
        Point(
            frame.x(level.concurrency),
            y(level.output_tok_s.number or 0.0),
            f"{css} at {level.concurrency}: {figure_text(level.output_tok_s)}",
        )
        for level in known
    ]
    bounded = [level for level in known if level.output_tok_s.low is not None and level.output_tok_s.high is not None]
    upper = [(frame.x(level.concurrency), y(level.output_tok_s.high or 0.0)) for level in bounded]
    lower = [(frame.x(level.concurrency), y(max(0.0, level.output_tok_s.low or 0.0))) for level in bounded]
    line = line_path([(point.x, point.y) for point in points])
    return Series(css, css, points, line, band_path(upper, lower))


def _percentile_series(
    label: str,
    pick: Callable[[Level], Figure],
    levels: Sequence[Level],
    frame: Frame,
    y: Callable[[float], float],
    scale: float,
) -> Series:
    known = [level for level in levels if (pick(level).number or 0.0) > 0]
    points = [
        Point(
            frame.x(level.concurrency),
            y((pick(level).number or 0.0) * scale),
            f"{label} at {level.concurrency}: {figure_text(pick(level))}",
        )
        for level in known
    ]
    return Series(label, label, points, line_path([(point.x, point.y) for point in points]))


def _ideal(levels: Sequence[Level], frame: Frame, top: float) -> tuple[str, float | None]:
    """What the narrowest level would give if every further lane gave as much, up to the plot's top."""
    first = _known(levels, _tok_s)[0]
    alone = (first.output_tok_s.number or 0.0) / first.concurrency
    if alone <= 0 or frame.widest == first.concurrency:
        return "", None
    end = min(float(frame.widest), top / alone)
    steps = 32
    widths = [first.concurrency * (end / first.concurrency) ** (step / steps) for step in range(steps + 1)]
    path = line_path([(frame.x(width), frame.y(width * alone / top)) for width in widths])
    return path, frame.x(end)


def _marks(curve: Curve, frame: Frame, y: Callable[[float], float]) -> tuple[Tick | None, Tick | None]:
    if curve.knee is None or curve.knee.concurrency.number is None:
        return None, None
    width = curve.knee.concurrency.number
    if not frame.narrowest <= width <= frame.widest:
        return None, None
    plateau = curve.knee.output_tok_s.number
    if curve.limit is Limit.NOT_REACHED or plateau is None:
        return Tick(frame.x(width), "limit not reached"), None
    return Tick(frame.x(width), f"knee: {number_text(width)}"), Tick(y(plateau), f"limit: {curve.limit}")


def _known(levels: Sequence[Level], of: Callable[[Level], Figure]) -> list[Level]:
    return [level for level in levels if of(level).number is not None]


def _tok_s(level: Level) -> Figure:
    return level.output_tok_s


def _upper(figure: Figure) -> float:
    return max(figure.number or 0.0, figure.high or 0.0) or 1e-9
