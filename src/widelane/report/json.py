"""The document of `--json`: one object, keys in a fixed order, figures in one shape.

A figure always shows `value`, `unit` and `origin`; `low`, `high` and `reason` only where there are any.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from widelane.measure.profile import DoctorReport, SweepReport
from widelane.plan.report import LaunchReport, PlanReport
from widelane.predict.report import PredictReport

_FIGURE_KEYS = {"value", "unit", "origin", "low", "high", "reason"}
_FIGURE_ALWAYS = {"value", "unit", "origin"}
_NOT_PRINTED = "timeline"
"""The calls themselves are in the run directory and the HTML page."""


def to_json(document: SweepReport | DoctorReport | PlanReport | LaunchReport | PredictReport) -> bytes:
    """UTF-8, indented, ending in a newline; the same document always gives the same bytes."""
    plain = msgspec.to_builtins(document, order="deterministic")
    plain.pop(_NOT_PRINTED, None)
    return msgspec.json.format(msgspec.json.encode(_tidy(plain)), indent=2) + b"\n"


def _tidy(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == _FIGURE_KEYS:
            return _figure(value)
        return {key: _tidy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    return value


def _figure(figure: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: such a value becomes null, and says so instead of losing its reason."""
    if isinstance(figure["value"], float) and not math.isfinite(figure["value"]):
        reason = figure["reason"] or f"the value is not a finite number ({figure['value']})"
        figure = figure | {"value": None, "reason": reason}
    bounds = {key: None for key in ("low", "high") if _is_not_finite(figure[key])}
    figure = figure | bounds
    return {key: item for key, item in figure.items() if key in _FIGURE_ALWAYS or item is not None}


def _is_not_finite(value: float | None) -> bool:
    return value is not None and not math.isfinite(value)
