"""The knee: the smallest width that gets (nearly) all the throughput there is. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from widelane.figures import Figure, Origin
from widelane.measure.profile import Knee, Level

KNEE_SHARE = 0.95
"""A width is wide enough at this share of the plateau."""
SINGLE_WINDOW_ERROR = 0.10
"""Relative error taken for a throughput without an interval of its own (one window): the boot-to-boot and
run-to-run spread of the calibration rows."""
_LEAST_ERROR = 0.02


class Point(NamedTuple):
    """Throughput at one width."""

    concurrency: int
    value: float
    low: float
    high: float


def too_many_failed(level: Level) -> bool:
    """Whether a tenth of a level's calls failed: its tokens are then partly of calls that came to nothing."""
    return sum(level.failures.values()) * 10 > level.requests


def points(levels: Sequence[Level]) -> list[Point]:
    """The levels that have a throughput of use, by rising width."""
    found = []
    for level in sorted(levels, key=lambda level: level.concurrency):
        if too_many_failed(level):
            continue
        figure = level.output_tok_s
        value = figure.number
        if value is None or value <= 0:
            continue
        low = figure.low if figure.low is not None else value * (1 - SINGLE_WINDOW_ERROR)
        high = figure.high if figure.high is not None else value * (1 + SINGLE_WINDOW_ERROR)
        found.append(Point(level.concurrency, value, max(0.0, low), high))
    return found


def find_knee(levels: Sequence[Level], slots: int | None = None) -> Knee | None:
    """The smallest width with 95 % of the plateau; None when no level has a throughput.

    Without slots the plateau is the best level. Where the server decodes only `slots` calls together, all levels from
    there on measure one and the same plateau, so it is their mean (the best of them would be the luckiest), and the
    knee cannot lie beyond the first of them.

    `low` and `high` of the concurrency: the smallest widths that could and that must be wide enough, given the
    intervals of the throughputs.
    """
    known = points(levels)
    if not known:
        return None
    plateau = plateau_tok_s(known, slots)
    reach = known
    if slots is not None and any(point.concurrency >= slots for point in known):
        first_full = next(point.concurrency for point in known if point.concurrency >= slots)
        reach = [point for point in known if point.concurrency <= first_full]
    widest = reach[-1]
    knee = next((point for point in reach if point.value >= KNEE_SHARE * plateau), widest)
    could = next((point for point in reach if point.high >= KNEE_SHARE * plateau), widest)
    must = next((point for point in reach if point.low >= KNEE_SHARE * plateau), widest)
    return Knee(
        concurrency=Figure(
            knee.concurrency,
            "calls",
            Origin.MEASURED,
            low=min(could.concurrency, knee.concurrency),
            high=max(must.concurrency, knee.concurrency),
            reason=f"smallest measured width with {KNEE_SHARE:.0%} of the plateau of {plateau:.4g} tok/s",
        ),
        output_tok_s=Figure(knee.value, "tok/s", Origin.MEASURED, low=knee.low, high=knee.high),
    )


def still_rising(known: Sequence[Point]) -> bool:
    """Whether the widest level still beats the narrower ones: by a tenth a doubling, or by more than chance explains.

    A tenth, because a doubling that brings less is not worth its latency. Chance, where the intervals are tight, or
    where the next narrower level is so near that a tenth a doubling is within the noise.
    """
    if len(known) < 2:
        return True
    widest = known[-1]
    best = max(known[:-1], key=lambda point: point.value)
    gain = widest.value / best.value
    doublings = math.log2(widest.concurrency / best.concurrency)
    beyond_chance = widest.low > best.high
    if doublings < 0.5:
        return beyond_chance and gain > 1 + 0.10 * doublings
    return gain > 1 + 0.10 * doublings or (gain > 1.05 and beyond_chance)


def plateau_tok_s(known: Sequence[Point], slots: int | None) -> float:
    """Throughput of the plateau: of the best level, or of all levels that fill the slots together.

    These measure one value, so they are averaged by their certainty (inverse variance, no error below 2 %): a level
    that was cut short has little say.
    """
    full = [point for point in known if slots is not None and point.concurrency >= slots]
    if not full:
        return max(point.value for point in known)
    weights = [1 / max((point.high - point.low) / 2, _LEAST_ERROR * point.value) ** 2 for point in full]
    return sum(weight * point.value for weight, point in zip(weights, full, strict=True)) / sum(weights)
