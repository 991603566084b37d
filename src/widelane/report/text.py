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

_BYTE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
_MINUTES_FROM_S = 120.0


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
    if abs(value_s) < _MINUTES_FROM_S:
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
    if figure.unit == "bytes" or figure.unit.startswith("bytes/"):
        return bytes_text(value) + figure.unit.removeprefix("bytes")
    if figure.unit == "parameters":
        return f"{number_text(value / 1e9)} B" if abs(value) >= 1e6 else number_text(value)
    if figure.unit == "s":
        return seconds_text(value)
    return f"{bare_text(figure)} {unit_text(figure)}".strip()


def bare_text(figure: Figure) -> str:
    """The value as it stands beside its unit: counts are whole numbers, what was measured or predicted has 3 digits."""
    value = figure.number
    if value is None:
        return DASH
    counted = isinstance(figure.value, int) or (_is_whole(value) and _counts(figure.unit))
    if counted:
        return number_text(value)
    return measured_text(value) if figure.origin is Origin.MEASURED else _trimmed(measured_text(value))


def _trimmed(text: str) -> str:
    """Without zeros at the end: 8.20 would claim digits that a prediction does not have."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def unit_text(figure: Figure) -> str:
    """The unit, singular where there is one of it: `1 lane`."""
    return figure.unit[:-1] if figure.number == 1 and _counts(figure.unit) else figure.unit


def figure_text(figure: Figure) -> str:
    """Value, unit, interval where there is one, and origin unless measured: `34.1 tok/s (33.5–34.7)`."""
    text = value_text(figure)
    if figure.value is None:
        return text
    asides = [part for part in (interval_text(figure), origin_word(figure)) if part]
    return f"{text} ({', '.join(asides)})" if asides else text


def interval_text(figure: Figure) -> str:
    """`33.5–34.7` in the unit in which the value is written; empty without an interval, or when it is one count."""
    if figure.low is None or figure.high is None:
        return ""
    if _counts(figure.unit) and _is_whole(figure.low) and _is_whole(figure.high):
        return f"{number_text(figure.low)}–{number_text(figure.high)}" if figure.low != figure.high else ""
    size = abs(figure.number or 0.0)
    if figure.unit == "s" and size >= _MINUTES_FROM_S:
        return f"{seconds_text(figure.low)}–{seconds_text(figure.high)}"
    scale = 1.0
    if figure.unit.startswith("bytes"):
        scale = _byte_unit(size)[0]
    elif figure.unit == "parameters" and size >= 1e6:
        scale = 1e9
    elif figure.unit == "s" and size < 1:
        scale = 1e-3
    return f"{measured_text(figure.low / scale)}–{measured_text(figure.high / scale)}"


def half_width_text(figure: Figure) -> str:
    """The larger half of the interval with the decimals of the value (`0.6` beside 34.1); empty without interval."""
    value = figure.number
    if value is None or figure.low is None or figure.high is None:
        return ""
    decimals = len(measured_text(value).partition(".")[2])
    return f"{max(figure.high - value, value - figure.low):,.{decimals}f}"


def cell(figure: Figure, scale: float = 1.0) -> str:
    """The bare value, for a column whose head names the unit."""
    value = figure.number
    if value is None:
        return DASH
    text = measured_text(value * scale)
    return text if figure.origin is Origin.MEASURED else _trimmed(text)


def with_half_width(figure: Figure) -> str:
    """`34.1 ±0.6`; a prediction's interval is no half-width: `376 (269–538)`."""
    if figure.origin is not Origin.MEASURED and (interval := interval_text(figure)):
        return f"{cell(figure)} ({interval})"
    half = half_width_text(figure)
    return f"{cell(figure)} ±{half}" if half else cell(figure)


def origin_word(figure: Figure) -> str:
    """`read`, `inferred`, `predicted` or `assumed`; empty for what was measured or is unknown."""
    return "" if figure.origin is Origin.MEASURED or figure.value is None else str(figure.origin)


def bytes_text(value: float) -> str:
    """Decimal units, as model files are sold: 17.5 GB."""
    size, unit = _byte_unit(abs(value))
    return f"{_keep_digits(value / size)} {unit}" if size > 1 else f"{int(value)} {unit}"


def part_text(value: float) -> str:
    """A part of a whole whose unit stands in the head; nothing is a dash."""
    return measured_text(value) if value > 0 else DASH


def gain_text(figure: Figure) -> str:
    """A factor: `×1.53`; a dash when it is unknown."""
    return DASH if figure.number is None else f"×{measured_text(figure.number)}"


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


def _counts(unit: str) -> bool:
    """Whether it is the name of things counted one by one: `requests`, not `s`, `tok/s` or what is scaled."""
    return len(unit) > 2 and unit.isalpha() and unit.endswith("s") and unit not in ("bytes", "parameters")


def _is_whole(value: float) -> bool:
    return math.isfinite(value) and value == int(value)


def _byte_unit(size: float) -> tuple[float, str]:
    return next((unit for unit in _BYTE_UNITS if size >= unit[0]), _BYTE_UNITS[-1])


def _keep_digits(value: float) -> str:
    size = abs(value)
    if not math.isfinite(value):
        return DASH
    if size >= 100 or size == 0:
        return f"{value:,.0f}"
    return f"{value:.{min(6, max(0, 2 - math.floor(math.log10(size))))}f}"
