"""What `widelane predict` shows in a terminal: the verdict, what it rests on, every width, and where the time goes.

Rich renderables only. Colour is never the only carrier of a meaning, and no text is read as markup.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.text import Text

from widelane.predict.report import PredictReport, Verdict, WidthPoint
from widelane.report.fitting_table import Column, FittingTable
from widelane.report.key_figure_lines import KeyFigureLines
from widelane.report.predict_words import (
    gain_cell,
    key_figures,
    phase_rows,
    seconds_cell,
    serial_cell,
    share_text,
    unknown_figures,
)
from widelane.report.terminal_parts import dash_line, indent, labelled, sign_line
from widelane.report.text import cell, number_text, value_text

_STYLES = {
    Verdict.PARALLELISE: "bold green",
    Verdict.DO_NOT: "bold red",
    Verdict.TOO_CLOSE: "bold yellow",
}


def predict_table(report: PredictReport, *, page_path: str | None = None) -> RenderableType:
    """Job, verdict and main figures, widths, phases, and what to know about them."""
    parts: list[RenderableType] = [
        labelled("Server", report.server),
        labelled("Job", report.job.words),
        labelled("Instead", report.job.instead),
        labelled("Verdict", Text(report.sentence, style=_STYLES[report.verdict])),
        *(labelled("", text) for text in report.why),
        "",
        indent(KeyFigureLines(key_figures(report))),
        "",
        *_widths(report),
        *_phases(report),
    ]
    doubts: list[RenderableType] = [sign_line("·", "cyan", text) for text in report.notes]
    doubts += [dash_line(name, reason) for name, reason in unknown_figures(report)]
    parts += ["", *doubts] if doubts else []
    return Group(*parts, *([labelled("Report", page_path)] if page_path else []))


def _widths(report: PredictReport) -> list[RenderableType]:
    points, chosen = report.widths, int(report.lanes.number or 0)

    def column(head: str, text: Callable[[WidthPoint], str], drop: int = 0, style: str = "") -> Column:
        return Column(head, [text(point) for point in points], drop, style)

    def lanes(point: WidthPoint) -> str:
        return f"{'→ ' if point.lanes == chosen else ''}{number_text(point.lanes)}"

    table = FittingTable([
        column("lanes", lanes),
        column("wall clock\ns", lambda point: seconds_cell(point.wall_s), style="bold"),
        column("speed-up\n(bounds)", gain_cell),
        column("lanes\nbusy", lambda point: share_text(point.utilisation), 3),
        column("together\ntok/s", lambda point: cell(point.output_tok_s), 2),
        column("tokens\nin turn", serial_cell, 1),
    ])  # fmt: skip
    return [labelled("Lanes", "what each number of them gives; → the fewest worth using"), indent(table)]


def _phases(report: PredictReport) -> list[RenderableType]:
    rows = phase_rows(report.phases)
    if not rows:
        return []
    lanes = value_text(report.lanes)
    heads = ("phase", "one lane\ns", "of all", f"{lanes}\ns", "of all", "gain")
    columns = [
        Column(head, [row[index] for row in rows], 1 if head == "of all" else 0)
        for index, head in enumerate(heads)
    ]  # fmt: skip
    return ["", labelled("Phases", f"the same job on one lane and on {lanes}"), indent(FittingTable(columns))]
