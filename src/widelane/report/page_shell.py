"""What all pages have in common: one file that loads nothing, its style and script inlined and allowed by their hashes.

All text is escaped by the template engine; the page's own policy forbids everything that is not inlined here.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from widelane.figures import Finding
from widelane.report.compare import ratio_text
from widelane.report.terminal import SIGNS
from widelane.report.text import DASH, cell, figure_text, number_text, part_text, value_text, with_half_width

_STYLE = "style.css"
_SCRIPT = "page.js"


def render(
    template: str, context: dict[str, Any], *, styles: Sequence[str] = (), scripts: Sequence[str] = (), rule: str = ""
) -> str:
    """The page as text.

    Args:
        template: file name of a template that extends `base.html.j2`.
        styles, scripts: file names, inlined after those that every page has.
        rule: a style rule of this one page.
    """
    style = "".join(map(_text, (_STYLE, *styles))) + _tokens() + rule
    script = "".join(map(_text, (_SCRIPT, *scripts)))
    return (
        _environment()
        .get_template(template)
        .render(
            **context,
            style=Markup(style),  # noqa: S704 - our own files
            script=Markup(script),  # noqa: S704 - our own files
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        figure=figure_text, cell=cell, pm=with_half_width, number=number_text, ratio=ratio_text, amount=value_text,
        part=part_text, percent=_percent, sign=_sign,
    )  # fmt: skip
    return environment


def _percent(value: float | None) -> str:
    """Without decimals; what is there is never called 0 %."""
    if value is None:
        return DASH
    return "< 1 %" if 0 < value < 0.5 else f"{value:.0f} %"


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
