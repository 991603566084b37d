"""One self-contained HTML page for a prediction: the verdict, every width, where the time goes, the lane timeline.

Nothing is loaded from anywhere (see `page_shell`); the timeline is that of a measured run, drawn from predicted calls.
"""

from __future__ import annotations

from widelane.predict.report import PredictReport
from widelane.report.lanes_view import Lanes, lanes_of
from widelane.report.page_shell import render
from widelane.report.predict_charts import predict_charts
from widelane.report.predict_words import (
    gain_cell,
    key_figures,
    made_rows,
    phase_rows,
    seconds_cell,
    serial_cell,
    share_text,
    unknown_figures,
)
from widelane.report.text import value_text
from widelane.report.timeline import build


def predict_page(report: PredictReport) -> str:
    """The page as text; the same report always gives the same page."""
    lanes = _lanes(report)
    return render(
        "predict.html.j2",
        {
            "report": report,
            "key_figures": key_figures(report),
            "charts": predict_charts(report),
            "chosen": report.lanes.value,
            "chosen_words": value_text(report.lanes),
            "widths": [
                (point.lanes, seconds_cell(point.wall_s), gain_cell(point), share_text(point.utilisation),
                 point.output_tok_s, serial_cell(point))
                for point in report.widths
            ],
            "phases": phase_rows(report.phases),
            "unknown": unknown_figures(report),
            "made": made_rows(report),
            "lanes": lanes,
        },
        styles=("plan.css",),
        scripts=("timeline.js",) if lanes else (),
        rule=f"#lanes-canvas{{height:{lanes.height_px}px}}" if lanes else "",
    )  # fmt: skip


def _lanes(report: PredictReport) -> Lanes | None:
    """One drawing for each number of lanes that calls were kept of, the widest first shown."""
    slots = report.server_slots.number
    drawn = [
        build(spans, label=label, slots=None if slots is None else int(slots))
        for label, spans in report.timeline.items()
        if spans
    ]
    return lanes_of([("Predicted", drawn)], first=(0, len(drawn) - 1)) if drawn else None
