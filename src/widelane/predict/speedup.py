"""How sure a speed-up is: the server's cost is known within bounds only, and chance has a part in some jobs. Pure.

An error that all steps have in common cancels: both ways of doing the work would be as much slower. What does not
cancel is how a step of many sequences compares with a step of one. So the bounds of the server's cost are laid on the
time in which several calls were in flight, and the time in which one ran alone is left as it is, in both.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from widelane.predict.report import Verdict

_TWO_SIDED = 1.96
"""Standard errors on either side of a mean that hold 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostError:
    """How far a server's steps may be from their prediction.

    Attributes:
        low, high: factors on a predicted time, low <= 1 <= high.
        words: where they come from.
    """

    low: float
    high: float
    words: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One run beside what would be done instead, with the same chance in both.

    Attributes:
        instead_s: the latter's wall clock. wall_s: the run's own. shared_s: of which several calls were in flight.
    """

    instead_s: float
    wall_s: float
    shared_s: float


@dataclass(frozen=True, slots=True)
class Speedup:
    """A factor with its bounds."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """What its bounds say."""
        if self.low > 1.0:
            return Verdict.PARALLELISE
        return Verdict.DO_NOT if self.high < 1.0 else Verdict.TOO_CLOSE


def speedup(samples: Sequence[Sample], error: CostError) -> Speedup:
    """Mean time instead over mean time of the job: what is gained on average, not in the luckiest run."""
    value = _ratio(samples, 1.0)
    chance = _chance_error(samples)
    slower, faster = _ratio(samples, error.high), _ratio(samples, error.low)
    below = math.hypot(math.log(value / slower), chance)
    above = math.hypot(math.log(faster / value), chance)
    return Speedup(value, value * math.exp(-below), value * math.exp(above))


def _ratio(samples: Sequence[Sample], factor: float) -> float:
    """The factor lies on the time in which several calls were in flight."""
    wall_s = sum(sample.wall_s + (factor - 1.0) * sample.shared_s for sample in samples)
    return sum(sample.instead_s for sample in samples) / wall_s


def _chance_error(samples: Sequence[Sample]) -> float:
    """Half width of the ratio of means, as a share of it; 0 where nothing varies.

    Delta method on pairs. The runs' chances are spread evenly and in order (`chance`), so what counts is how neighbours
    differ: the successive-difference estimate for a systematic sample (Wolter, Introduction to Variance Estimation).
    """
    if len(samples) < 2:
        return 0.0
    ratio = _ratio(samples, 1.0)
    residuals = [sample.instead_s - ratio * sample.wall_s for sample in samples]
    steps = sum((after - before) ** 2 for before, after in itertools.pairwise(residuals))
    spread_s = math.sqrt(steps / (2 * (len(samples) - 1)))
    mean_s = statistics.fmean(sample.instead_s for sample in samples)
    return _TWO_SIDED * spread_s / math.sqrt(len(samples)) / mean_s
