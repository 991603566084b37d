"""The charts of a plan against depth: how long a prompt takes to read, and how fast it is read. Pure geometry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from widelane.figures import Figure
from widelane.plan.report import PrefillPoint
from widelane.report.axis import LinearFrame, Tick, linear_ticks
from widelane.report.plan_chart import PlanChart, is_drawn, label_room, line_series, upper
from widelane.report.text import figure_text

_WIDTH, _HEIGHT = 560.0, 262.0


def prefill_charts(points: Sequence[PrefillPoint]) -> list[PlanChart]:
    """Seconds to read a prompt against its length, and the rate at each depth; those without figures are left out."""
    drawn = [
        _prefill_chart(
            points, "prefill-time", "Time to read a prompt of this length, s", lambda point: point.seconds,
            lambda point: f"{point.depth_tokens:,} tokens: {figure_text(point.seconds)}",
        ),
        _prefill_chart(
            points, "prefill-rate", "Tokens per second while reading at this depth", lambda point: point.tok_s,
            lambda point: f"at {point.depth_tokens:,} tokens: {figure_text(point.tok_s)}",
        ),
    ]  # fmt: skip
    return [chart for chart in drawn if chart is not None]


def _prefill_chart(
    points: Sequence[PrefillPoint],
    name: str,
    title: str,
    of: Callable[[PrefillPoint], Figure],
    words: Callable[[PrefillPoint], str],
) -> PlanChart | None:
    known = [point for point in points if is_drawn(of(point))]
    if len(known) < 2 or known[-1].depth_tokens <= 0:
        return None
    top = max(upper(of(point)) for point in known) * 1.12
    y_values = linear_ticks(top, about=4)
    widest = known[-1].depth_tokens
    frame = LinearFrame(_WIDTH, _HEIGHT, label_room(y_values), 14, _WIDTH - 22, _HEIGHT - 40, 0, widest)

    def y(value: float) -> float:
        return frame.y(value / top)

    series = line_series(name, known, of, lambda point: frame.x(point.depth_tokens), y, words)
    return PlanChart(
        name=name,
        title=title,
        x_title="tokens",
        frame=frame,
        x_ticks=[Tick(frame.x(value), _depth_text(value)) for value in linear_ticks(widest, about=6)],
        y_ticks=[Tick(y(value), f"{value:,.10g}") for value in y_values],
        series=[series],
    )


def _depth_text(tokens: float) -> str:
    """`20k`: the axis counts thousands of tokens."""
    return f"{tokens / 1e3:g}k" if tokens >= 1000 else f"{tokens:g}"
