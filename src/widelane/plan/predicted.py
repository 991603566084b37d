"""Predicted numbers as figures: rounded to what the prediction is worth, with its interval and where it comes from."""

from __future__ import annotations

import math

from widelane.figures import Figure, Origin
from widelane.plan.rates import ExpectedRates


def rounded(value: float) -> float:
    """One decimal from 1 up, three significant digits below: a prediction is no better than that."""
    if value == 0 or not math.isfinite(value):
        return value
    return round(value, 1) if abs(value) >= 1 else round(value, 2 - math.floor(math.log10(abs(value))))


def rate(tok_s: float, expected: ExpectedRates, reason: str | None = None) -> Figure:
    """Tokens/s with the interval that the step time's own gives."""
    low, high = rounded(tok_s / expected.high), rounded(tok_s / expected.low)
    return Figure(rounded(tok_s), "tok/s", Origin.PREDICTED, low, high, reason or expected.words)


def duration(seconds: float, low: float, high: float, reason: str) -> Figure:
    """Seconds; `low` and `high` are factors on it."""
    return Figure(_digits(seconds), "s", Origin.PREDICTED, _digits(seconds * low), _digits(seconds * high), reason)


def factor(then: float | None, now: float | None, reason: str) -> Figure:
    """A gain as `then` over `now`; unknown where there is nothing to divide by."""
    if then is None or not now:
        return Figure(None, "times", Origin.PREDICTED, reason=f"{reason}: there is nothing to compare with")
    return Figure(round(then / now, 2), "times", Origin.PREDICTED, reason=reason)


def _digits(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")
