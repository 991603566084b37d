"""One self-contained HTML page for a sweep, a diagnosis, or a before and after.

Nothing is loaded from anywhere: style and script are inlined, and the page's own policy forbids everything else.
All text is escaped by the template engine; the data of the timeline is JSON in which no sign of HTML stands.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from widelane.figures import Finding
from widelane.measure.profile import DoctorReport, SweepReport
from widelane.report.compare import ratio_text
from widelane.report.level_table import cell, with_half_width
from widelane.report.page_view import lanes_view, page_context
from widelane.report.terminal import SIGNS
from widelane.report.text import figure_text, number_text


def page(sweep: SweepReport | None, doctor: DoctorReport | None, before: SweepReport | None = None) -> str:
    """The page as text.

    Raises:
        ValueError: neither a sweep nor a diagnosis was given.
    """
    if sweep is None and doctor is None:
        raise ValueError("a report needs a sweep or a diagnosis")
    shown_lanes = lanes_view(sweep, before)
    context = page_context(sweep, doctor, before)
    style = (
        _text("style.css") + _tokens() + (f"#lanes-canvas{{height:{shown_lanes.height_px}px}}" if shown_lanes else "")
    )
    script = _text("page.js") + (_text("timeline.js") if shown_lanes else "")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            **context,
            lanes=shown_lanes,
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own files
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
    )


# --- templates


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        figure=figure_text, cell=cell, pm=with_half_width, number=number_text, ratio=ratio_text,
        sign=_sign,
    )  # fmt: skip
    return environment


def _sign(finding: Finding) -> str:
    return SIGNS[finding.severity]


@cache
def _text(name: str) -> str:
    return resources.files("widelane.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _tokens() -> str:
    """The colours, light and dark: dark where the system asks for it, or where the reader chose it."""
    light, dark = _text("light.css"), _text("dark.css")
    return (
        f":root{{{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}\n"
        "@media print{:root{--paper:#fff;--halo:#fff}}\n"
    )


def _hash(text: str) -> str:
    """The text's hash as a content security policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
