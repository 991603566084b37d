"""How numbers and figures are written: three significant digits, the unit once, the origin where nothing was measured.

Terminal and HTML write the same words, because both take them from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure, Origin

DASH = "–"
"""Stands for a value that is not known; the reason is listed beside it."""

_BYTE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def number_text(value: float) -> str:
    """Three significant digits, thousands separated, never an exponent: 0.0715, 4.2, 34.1, 152, 8,192."""
    if not math.isfinite(value):
        return DASH
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    decimals = max(0, 2 - math.floor(math.log10(size)))
    return f"{value:.{min(decimals, 6)}f}"


def measured_text(value: float) -> str:
    """Like `number_text`, but a measured value keeps its three digits where it happens to be whole: 4.00, 10.0."""
    return f"{value:.2f}" if abs(value) < 10 and value == int(value) else _keep_digits(value)


def seconds_text(value_s: float) -> str:
    """A duration with its unit: 72 ms, 4.19 s, 3 min 5 s."""
    if not math.isfinite(value_s):
        return DASH
    if abs(value_s) < 1:
        return f"{number_text(value_s * 1e3)} ms"
    if abs(value_s) < 120:
        return f"{measured_text(value_s)} s"
    minutes, seconds = divmod(round(value_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def value_text(figure: Figure) -> str:
    """The value with its unit, without origin; a dash when it is unknown."""
    value = figure.value
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return f"{value} {figure.unit}".strip()
    if figure.unit == "bytes":
        return bytes_text(value)
    if figure.unit == "s":
        return seconds_text(value)
    text = number_text(value) if isinstance(value, int) else measured_text(value)
    return f"{text} {figure.unit}".strip()


def figure_text(figure: Figure) -> str:
    """Value, unit, interval where there is one, and origin unless measured: `34.1 tok/s (33.5–34.7)`."""
    text = value_text(figure)
    if figure.value is None:
        return text
    asides = [part for part in (interval_text(figure), origin_word(figure)) if part]
    return f"{text} ({', '.join(asides)})" if asides else text


def interval_text(figure: Figure) -> str:
    """`33.5–34.7`, empty when the figure has no interval."""
    if figure.low is None or figure.high is None:
        return ""
    return f"{measured_text(figure.low)}–{measured_text(figure.high)}"


def half_width_text(figure: Figure) -> str:
    """The larger half of the interval with the decimals of the value (`0.6` beside 34.1); empty without interval."""
    value = figure.number
    if value is None or figure.low is None or figure.high is None:
        return ""
    decimals = len(measured_text(value).partition(".")[2])
    return f"{max(figure.high - value, value - figure.low):.{decimals}f}"


def origin_word(figure: Figure) -> str:
    """`read`, `inferred`, `predicted` or `assumed`; empty for what was measured or is unknown."""
    return "" if figure.origin is Origin.MEASURED or figure.value is None else str(figure.origin)


def bytes_text(value: float) -> str:
    """Decimal units, as model files are sold: 17.5 GB."""
    for size, unit in _BYTE_UNITS:
        if abs(value) >= size:
            return f"{_keep_digits(value / size)} {unit}"
    return f"{int(value)} bytes"


def plural(count: int, noun: str) -> str:
    """`1 request`, `32 requests`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def list_text(items: Iterable[object]) -> str:
    """`1`, `1 and 2`, `1, 2 and 4`."""
    words = [str(item) for item in items]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def server_text(url: str, facts: ServerFacts) -> str:
    """One line: `llama.cpp b11549 at 127.0.0.1:8080 · model · 17.5 GB · 4 slots × 8,192 tokens (read)`.

    What is not known is left out here; the table of facts names it with its reason.
    """
    version = f" {facts.version.value}" if facts.version.value is not None else ""
    where = url.partition("://")[2].rstrip("/").removesuffix("/v1") or url
    parts = [f"{facts.engine}{version} at {where}"]
    if facts.model.value is not None:
        parts.append(str(facts.model.value))
    if facts.weights_bytes.value is not None:
        parts.append(figure_text(facts.weights_bytes).replace(" (read)", ""))
    parts.append(_slots_text(facts.slots, facts.context_per_slot))
    return " · ".join(part for part in parts if part)


def _slots_text(slots: Figure, context: Figure) -> str:
    if slots.value is None:
        return f"{figure_text(context)} a slot" if context.value is not None else ""
    if context.value is None:
        return figure_text(slots)
    if slots.origin is context.origin:
        return f"{value_text(slots)} × {figure_text(context)}"
    return f"{figure_text(slots)} × {figure_text(context)}"


def _keep_digits(value: float) -> str:
    size = abs(value)
    if not math.isfinite(value):
        return DASH
    if size >= 100 or size == 0:
        return f"{value:,.0f}"
    return f"{value:.{min(6, max(0, 2 - math.floor(math.log10(size))))}f}"
