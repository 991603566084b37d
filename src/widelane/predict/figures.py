"""Results of runs as figures: rounded to what a prediction is worth, with bounds, and always `predicted`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from widelane.figures import Figure, Origin, unknown
from widelane.predict.simulate import Run
from widelane.predict.speedup import CostError, Speedup

_INNER = 0.05
"""Runs outside the inner nine tenths are left out of the bounds."""


def wall_figure(runs: Sequence[Run], error: CostError) -> Figure:
    """Mean wall clock; the bounds hold nine runs in ten, on a server as fast or as slow as it may be."""
    ordered = sorted(run.wall_s for run in runs)
    outside = int(_INNER * len(ordered))
    low_s, high_s = ordered[outside] * error.low, ordered[-1 - outside] * error.high
    seconds = fmean(ordered)
    reason = error.words if len(runs) == 1 else f"{error.words}; mean of {len(runs)} runs"
    return Figure(_digits(seconds), "s", Origin.PREDICTED, _digits(low_s), _digits(high_s), reason)


def seconds_figure(value_s: float) -> Figure:
    """A time without bounds of its own."""
    return Figure(_digits(value_s), "s", Origin.PREDICTED)


def rate_figure(tokens: float, wall_s: float) -> Figure:
    """Tokens/s of all calls together."""
    if wall_s <= 0:
        return unknown("tok/s", "the job takes no time", Origin.PREDICTED)
    return Figure(_digits(tokens / wall_s), "tok/s", Origin.PREDICTED)


def mean_figure(counts: Sequence[int], unit: str) -> Figure:
    """A count, or the mean of counts with the least and the greatest where they vary."""
    mean = round(fmean(counts))
    if min(counts) == max(counts):
        return Figure(mean, unit, Origin.PREDICTED)
    reason = f"mean of {len(counts)} runs; bounds: the least and the greatest of them"
    return Figure(mean, unit, Origin.PREDICTED, min(counts), max(counts), reason)


def share_figure(part_s: float, whole_s: float) -> Figure:
    """Part of a whole, 0 to 1."""
    if whole_s <= 0:
        return unknown("share", "the job takes no time", Origin.PREDICTED)
    return Figure(_digits(part_s / whole_s), "share", Origin.PREDICTED)


def factor_figure(before_s: float, after_s: float, without: str) -> Figure:
    """One time over another; unknown, with `without` as the reason, where the other is no time."""
    if after_s <= 0:
        return unknown("times", without, Origin.PREDICTED)
    return Figure(_digits(before_s / after_s), "times", Origin.PREDICTED)


def speedup_figure(gain: Speedup, error: CostError) -> Figure:
    """A speed-up with its bounds, where it has any: work that is never shared has none."""
    reason = f"{error.words}; on the time in which several calls are in flight"
    low, high = round(gain.low, 3), round(gain.high, 3)
    if low == high:
        return Figure(round(gain.value, 3), "times", Origin.PREDICTED)
    return Figure(round(gain.value, 3), "times", Origin.PREDICTED, low, high, reason)


def _digits(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")
