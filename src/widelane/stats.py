"""Intervals, by the textbook. Pure functions over plain numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

# Two-sided 95 % quantiles of Student's t for 1 … 30 degrees of freedom (any statistics table, e.g. NIST/SEMATECH
# e-Handbook 1.3.6.7.2); beyond, the Cornish-Fisher expansion below is exact to three digits.
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_Z_975 = 1.959964


class Interval(NamedTuple):
    """An estimate with its 95 % bounds."""

    value: float
    low: float
    high: float

    @property
    def relative_half_width(self) -> float:
        """Half the interval over the value; infinite for a value of zero."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else math.inf


def t_975(degrees: int) -> float:
    """Student's t quantile for a two-sided 95 % interval.

    Raises:
        ValueError: no degrees of freedom.
    """
    if degrees < 1:
        raise ValueError("an interval needs at least two samples")
    if degrees <= len(_T_975):
        return _T_975[degrees - 1]
    return _Z_975 + (_Z_975**3 + _Z_975) / (4 * degrees)


def mean_interval(samples: Sequence[float]) -> Interval | None:
    """Mean with its 95 % t interval; None below two samples."""
    if len(samples) < 2:
        return None
    mean = statistics.fmean(samples)
    half = t_975(len(samples) - 1) * statistics.stdev(samples) / math.sqrt(len(samples))
    return Interval(mean, mean - half, mean + half)
