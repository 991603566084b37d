"""The charts of a prediction against lanes: wall clock and speed-up, each with its bounds. Pure; the x axis is log2."""

from __future__ import annotations

from collections.abc import Callable

from widelane.figures import Figure
from widelane.predict.report import PredictReport, WidthPoint
from widelane.report.axis import Tick, frame_of, linear_ticks, x_ticks
from widelane.report.plan_chart import Mark, PlanChart, is_drawn, label_room, line_series, upper
from widelane.report.text import figure_text, number_text

_WIDTH, _HEIGHT = 560.0, 300.0


def predict_charts(report: PredictReport) -> list[PlanChart]:
    """Wall clock and speed-up; none where only one number of lanes was tried."""
    drawn = [
        _chart(report, "wall", "Wall clock, s", lambda point: point.wall_s),
        _chart(report, "speedup", "Speed-up over what would be done instead", lambda point: point.speedup, level=1.0),
    ]
    return [chart for chart in drawn if chart is not None]


def _chart(
    report: PredictReport, name: str, title: str, of: Callable[[WidthPoint], Figure], level: float | None = None
) -> PlanChart | None:
    points = [point for point in report.widths if is_drawn(of(point))]
    if len(points) < 2:
        return None
    top = max(*(upper(of(point)) for point in points), level or 0.0) * 1.12
    ticks = linear_ticks(top, about=6)
    frame = frame_of([point.lanes for point in points], _WIDTH, _HEIGHT, right=14, left=label_room(ticks))

    def y(value: float) -> float:
        return frame.y(value / top)

    def words(point: WidthPoint) -> str:
        return f"{number_text(point.lanes)} lanes: {figure_text(of(point))}"

    lanes = report.lanes.number or 1.0
    at = frame.x(lanes)
    mark = Mark("lanes", at, f"worth using: {number_text(lanes)}", 0, at > (frame.left + frame.right) / 2)
    return PlanChart(
        name=name,
        title=title,
        x_title="lanes",
        frame=frame,
        x_ticks=x_ticks([point.lanes for point in points], frame),
        y_ticks=[Tick(y(value), f"{value:,.10g}") for value in ticks],
        series=[line_series(name, points, of, lambda point: frame.x(point.lanes), y, words)],
        marks=[mark],
        level=None if level is None else y(level),
        level_until=frame.right,
    )
