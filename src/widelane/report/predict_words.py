"""What a prediction's views say beside its own sentences: key figures, cells of the tables, what is not known. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from widelane.figures import Figure
from widelane.predict.report import Phase, PredictReport, WidthPoint
from widelane.report.key_figure import KeyFigure
from widelane.report.text import DASH, bare_text, cell, gain_text, interval_text, number_text, unit_text, value_text

ONE_LANE = "on one lane"


def key_figures(report: PredictReport) -> list[KeyFigure]:
    """What one wants to know first: how long, how much faster, on how many lanes, and from which length on."""
    lanes = value_text(report.lanes)
    figures = [
        _key("Wall clock", report.wall_s, f"on {lanes}"),
        KeyFigure(
            "Speed-up", gain_text(report.speedup), "", _bounds(report.speedup, "over the same work without splitting")
        ),
        KeyFigure("Lanes worth using", bare_text(report.lanes), "", report.lanes.reason or ""),
        KeyFigure(
            "Serial tokens", bare_text(report.serial_tokens), "", "the longest chain that must be written in turn"
        ),
    ]
    if report.crossover_tokens.value is not None:
        figures.append(
            KeyFigure("Crossover", bare_text(report.crossover_tokens), "tokens", report.crossover_tokens.reason or "")
        )
    if report.solved.value is not None:
        figures.append(KeyFigure("Some try passes", share_text(report.solved), "", "of all cases"))
    return figures


def share_text(figure: Figure) -> str:
    """A share as a percentage; a dash when it is unknown. What is there is never called 0 %."""
    value = figure.number
    if value is None:
        return DASH
    return "< 1 %" if 0 < value < 0.005 else f"{value * 100:.0f} %"


def gain_cell(point: WidthPoint) -> str:
    """`×3.81 (3.2–4.4)`."""
    return _bounds(point.speedup, "", gain_text(point.speedup))


def seconds_cell(figure: Figure) -> str:
    """Seconds without a unit, for a column whose head names it."""
    return cell(figure)


def phase_rows(phases: Sequence[Phase]) -> list[tuple[str, str, str, str, str, str]]:
    """Role, seconds and share on one lane, the same on the lanes worth using, and the gain."""
    return [
        (
            phase.role,
            seconds_cell(phase.one_lane_s),
            share_text(phase.share_one_lane),
            seconds_cell(phase.lanes_s),
            share_text(phase.share),
            gain_text(phase.gain),
        )
        for phase in phases
    ]


def serial_cell(point: WidthPoint) -> str:
    """Tokens written one after another on the way to the end."""
    return number_text(point.serial_tokens.number or 0)


def unknown_figures(report: PredictReport) -> list[tuple[str, str]]:
    """Name and reason of what could not be told."""
    named = [
        ("crossover", report.crossover_tokens),
        ("most speed-up", report.most_speedup),
        ("the server's slots", report.server_slots),
    ]
    return [(name, figure.reason or "") for name, figure in named if figure.value is None]


def made_rows(report: PredictReport) -> list[tuple[str, str]]:
    """What replays the prediction."""
    return [("schema", f"{report.schema.name} {report.schema.version}"), *report.made.items()]


def _key(name: str, figure: Figure, note: str) -> KeyFigure:
    """A duration of two units (12 min 48 s) stays whole."""
    if figure.unit != "s":
        return KeyFigure(name, bare_text(figure), unit_text(figure), _bounds(figure, note))
    text = value_text(figure)
    value, _, unit = text.partition(" ")
    return KeyFigure(name, *((text, "") if " " in unit else (value, unit)), _bounds(figure, note))


def _bounds(figure: Figure, note: str, text: str = "") -> str:
    interval = interval_text(figure)
    parts = [text or note, f"({interval})" if interval else ""]
    return " ".join(part for part in parts if part)
