"""The two numbers of a machine and an engine, fitted to measured decode steps: efficiency, and the scale of overhead.

Each row says  step = moved / efficiency + scale * overhead + fixed,  which is linear in 1/efficiency and scale. They
are chosen by iteratively reweighted least squares of the relative error (Huber's loss): steps of 5 ms and of 500 ms
count alike, and a row that is far off pulls no harder than one that is a little off. With few rows, or rows that
cannot tell the two apart, the fit stays near what is usual elsewhere: one row alone still gives a usable answer.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

HUBER_DELTA = 0.08
"""Relative error beyond which a row's pull no longer grows."""
ROUNDS = 25
HIGHEST_EFFICIENCY = 1.0


class MachineFit(NamedTuple):
    """What one machine with one engine reaches.

    Attributes:
        efficiency: share of the nominal bandwidth, above 0 and at most 1.
        overhead_scale: times the usual overhead of a step of the same model (`plan.rates.usual_overhead_s`).
    """

    efficiency: float
    overhead_scale: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is usual before any row was seen.

    Attributes:
        efficiency, overhead_scale: the usual values; medians over the machines of the calibration rows.
        efficiency_spread, overhead_spread: how far machines differ from it, as a share of it.
        weight: departing by one spread costs as much as one row missed by the square root of this (7 %).
    """

    efficiency: float = 0.78
    overhead_scale: float = 1.0
    efficiency_spread: float = 0.12
    overhead_spread: float = 0.3
    weight: float = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One measured step and what the model says of it.

    Attributes:
        moved_s: its bytes over the nominal bandwidth.
        overhead_s: the usual overhead.
        fixed_s: what neither number changes: arithmetic, tensor-parallel exchange.
        measured_s: its measured length, above 0.
    """

    moved_s: float
    overhead_s: float
    fixed_s: float
    measured_s: float

    def __post_init__(self) -> None:
        if not self.measured_s > 0:
            raise ValueError(f"a measured step takes longer than 0 s, not {self.measured_s!r}")

    def predicted_s(self, fit: MachineFit) -> float:
        """Its length under a fit."""
        return self.moved_s / fit.efficiency + self.overhead_s * fit.overhead_scale + self.fixed_s

    def error(self, fit: MachineFit) -> float:
        """Predicted over measured length, minus one."""
        return self.predicted_s(fit) / self.measured_s - 1.0


def fit_machine(observations: Sequence[Observation], *, prior: Prior | None = None) -> MachineFit:
    """The fit of all observations of one machine and engine; the prior itself when there are none."""
    prior = prior or Prior()
    weights = [1.0] * len(observations)
    fit = MachineFit(prior.efficiency, prior.overhead_scale)
    for _ in range(ROUNDS):
        fit = _weighted(observations, weights, prior)
        errors = [abs(one.error(fit)) for one in observations]
        weights = [1.0 if error <= HUBER_DELTA else HUBER_DELTA / error for error in errors]
    return fit


def median_error(observations: Sequence[Observation], fit: MachineFit) -> float | None:
    """Median of the absolute relative errors, None without observations."""
    return statistics.median(abs(one.error(fit)) for one in observations) if observations else None


def _weighted(observations: Sequence[Observation], weights: Sequence[float], prior: Prior) -> MachineFit:
    """Least squares of the relative error with the prior as two further equations, within the bounds."""
    usual = 1.0 / prior.efficiency
    reading = prior.weight / (prior.efficiency_spread * usual) ** 2
    waiting = prior.weight / (prior.overhead_spread * prior.overhead_scale) ** 2
    aa, bb, ab = reading, waiting, 0.0
    ay, by = reading * usual, waiting * prior.overhead_scale
    for one, weight in zip(observations, weights, strict=True):
        a, b = one.moved_s / one.measured_s, one.overhead_s / one.measured_s
        y = 1.0 - one.fixed_s / one.measured_s
        aa, bb, ab = aa + weight * a * a, bb + weight * b * b, ab + weight * a * b
        ay, by = ay + weight * a * y, by + weight * b * y
    inverse = (ay * bb - by * ab) / (aa * bb - ab * ab)
    scale = (by - ab * inverse) / bb
    if scale < 0.0:
        inverse, scale = ay / aa, 0.0
    if inverse < 1.0 / HIGHEST_EFFICIENCY:
        inverse = 1.0 / HIGHEST_EFFICIENCY
        scale = max(0.0, (by - ab * inverse) / bb)
    return MachineFit(1.0 / inverse, scale)
