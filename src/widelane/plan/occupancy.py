"""What one lane holds in the pool, as a distribution over tokens: at the ends of its calls, and at any moment between.

**In step**: every lane at the end of its call. That is how calls meet that began together and are alike.

**Out of step**: each lane at some moment of some call. A call appears with its prompt and grows a token a step, so a
lane holds x tokens in proportion to the calls that are longer than x (and have a prompt below it): long calls count
for as long as they last, and each of their lengths on the way counts once. The mean is prompt + E[g^2] / (2 E[g]) for
an output g: half of the end where all are alike, more than the mean end where outputs vary by more than their mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from widelane.plan.footprint import Footprint, PastCall

_SIGMAS: Final = 4.0
_CELLS: Final = 400
_FINE_TOKENS: Final = 200
_GROWTH: Final = 1.005
"""Tokens are told apart to half a percent, and one by one below 200."""
_NOTHING: Final = 1e-12
"""Shares below this are rounding errors of sums."""


@dataclass(frozen=True, slots=True)
class Course:
    """A call on its way: from its prompt to its end, in tokens, and the share of calls that are like it."""

    start: int
    end: int
    share: float


def courses(calls: Sequence[PastCall] | Footprint, max_tokens: int | None = None) -> list[Course]:
    """The calls as courses; the shares add up to 1.

    Args:
        max_tokens: where the fuse ends a call; longer ones end there. None for no fuse.
    """
    cap = max_tokens or math.inf
    told = _log_normal(calls, cap) if isinstance(calls, Footprint) else _counted(calls)
    return [_within(course, cap) for course in told]


def ends(lanes: Sequence[Course]) -> dict[int, float]:
    """Share of calls by the tokens they end with."""
    found: dict[int, float] = {}
    for course in lanes:
        found[course.end] = found.get(course.end, 0.0) + course.share
    return found


def on_the_way(lanes: Sequence[Course]) -> dict[int, float]:
    """Share of time by the tokens that a lane holds; each cell of the grid stands at its middle."""
    edges = list(_edges(max(course.end for course in lanes)))
    begun = _area_below(edges, sorted((course.start, course.share) for course in lanes))
    over = _area_below(edges, sorted((course.end, course.share) for course in lanes))
    held = [first - second for first, second in zip(begun, over, strict=True)]
    shares = {}
    for (below, upto), (earlier, later) in zip(pairwise(edges), pairwise(held), strict=True):
        share = (later - earlier) / held[-1]
        if share > _NOTHING:
            shares[(below + upto + 1) // 2] = share
    return shares


def _within(course: Course, cap: float) -> Course:
    """Cut off by the fuse; every call writes at least one token."""
    end = max(1, int(min(course.end, cap)))
    return Course(min(course.start, end - 1), end, course.share)


def _counted(calls: Sequence[PastCall]) -> list[Course]:
    counts: dict[tuple[int, int], int] = {}
    for call in calls:
        key = (call.prompt_tokens or 0, call.total_tokens)
        counts[key] = counts.get(key, 0) + 1
    return [Course(start, end, count / len(calls)) for (start, end), count in counts.items()]


def _log_normal(footprint: Footprint, cap: float) -> Iterator[Course]:
    """Cells of equal width in the logarithm, each at its middle; what lies beyond four sigmas ends at the fuse."""
    start = int(footprint.prompt_tokens)
    mean = footprint.mean_tokens
    variance = math.log1p((footprint.spread_tokens / mean) ** 2)
    if variance == 0.0:
        yield Course(start, math.ceil(mean), 1.0)
        return
    sigma, middle = math.sqrt(variance), math.log(mean) - variance / 2
    below = 0.0
    for cell in range(1, _CELLS + 1):
        deviation = _SIGMAS * (2 * cell / _CELLS - 1)
        upto = _normal_below(deviation)
        yield Course(start, round(math.exp(middle + sigma * (deviation - _SIGMAS / _CELLS))), upto - below)
        below = upto
    longest = math.ceil(math.exp(middle + sigma * _SIGMAS))
    yield Course(start, longest if math.isinf(cap) else max(longest, int(cap)), 1.0 - below)


def _normal_below(deviation: float) -> float:
    return 0.5 * (1.0 + math.erf(deviation / math.sqrt(2.0)))


def _edges(longest: int) -> Iterator[int]:
    """0, 1, 2, … and later in steps of half a percent, up to the longest."""
    edge = 0
    while edge < longest:
        yield edge
        edge = edge + 1 if edge < _FINE_TOKENS else math.ceil(edge * _GROWTH)
    yield longest


def _area_below(edges: Sequence[int], points: Sequence[tuple[int, float]]) -> list[float]:
    """For each edge x, the sum of share * max(0, x - point); both rising."""
    areas, at, shares, moments = [], 0, 0.0, 0.0
    for edge in edges:
        while at < len(points) and points[at][0] < edge:
            shares += points[at][1]
            moments += points[at][1] * points[at][0]
            at += 1
        areas.append(shares * edge - moments)
    return areas
