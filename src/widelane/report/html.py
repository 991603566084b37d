"""One self-contained HTML page for a sweep, a diagnosis, or a before and after.

Nothing is loaded from anywhere (see `page_shell`); the data of the timeline is JSON in which no sign of HTML stands.
"""

from __future__ import annotations

from widelane.measure.profile import DoctorReport, SweepReport
from widelane.report.page_shell import render
from widelane.report.page_view import lanes_view, page_context


def page(sweep: SweepReport | None, doctor: DoctorReport | None, before: SweepReport | None = None) -> str:
    """The page as text.

    Raises:
        ValueError: neither a sweep nor a diagnosis was given.
    """
    if sweep is None and doctor is None:
        raise ValueError("a report needs a sweep or a diagnosis")
    lanes = lanes_view(sweep, before)
    return render(
        "page.html.j2",
        {**page_context(sweep, doctor, before), "lanes": lanes},
        scripts=("timeline.js",) if lanes else (),
        rule=f"#lanes-canvas{{height:{lanes.height_px}px}}" if lanes else "",
    )
