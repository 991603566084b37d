"""What a wider step costs, from the measured levels, and what more slots would therefore bring.

With n calls decoded together, one token for each of them takes T(n) = n / X(n) seconds, where X is the measured
throughput. As long as the weights dominate, T(n) = a + b·n: `a` is what a step costs whatever its width, `b` what each
further call adds (arithmetic, KV bytes, its share of prefill). So X(n) = n / (a + b·n), with the ceiling 1 / b.
It is a straight line continued past its points: it does not know of a knee that lies beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from widelane.measure.knee import Point, points
from widelane.measure.profile import Level

WORTH_DOUBLING = 0.10
"""Doubling the slots again is advised while it is predicted to add more than this share."""
WIDEST_ADVICE = 64
FURTHEST_ADVICE = 8
"""No advice goes beyond this many slots, or this many times those that were measured: the line is only a line."""


@dataclass(frozen=True, slots=True)
class StepLine:
    """T(n) = fixed_s + per_call_s · n, with the flattest and the steepest line that the intervals allow.

    Attributes:
        points: the widths the lines were drawn through.
    """

    fixed_s: float
    per_call_s: float
    flattest: tuple[float, float]
    steepest: tuple[float, float]
    points: tuple[int, ...]

    def tok_s(self, width: int) -> tuple[float, float, float]:
        """Predicted output tok/s at a width: (value, low, high)."""
        value = _throughput(self.fixed_s, self.per_call_s, width)
        low = _throughput(*self.steepest, width)
        high = _throughput(*self.flattest, width)
        return value, min(low, value), max(high, value)


def step_line(levels: Sequence[Level], widest: int) -> StepLine | None:
    """The line through the levels up to `widest` calls; None with fewer than two of them.

    Levels beyond the server's own width are left out: there T measures the queue. So are those that the client spoiled.
    """
    within = [level for level in levels if level.concurrency <= widest and not level.client.spoiled]
    known = [point for point in points(within) if point.low > 0]
    if len(known) < 2:
        return None
    first, last = known[0], known[-1]
    return StepLine(
        *_least_squares([(point.concurrency, point.concurrency / point.value) for point in known]),
        flattest=_through(_slow(first), _fast(last)),
        steepest=_through(_fast(first), _slow(last)),
        points=tuple(point.concurrency for point in known),
    )


def advised_slots(cost: StepLine | None, slots: int) -> int:
    """How many slots to ask for: twice as many as now, and on while doubling still pays.

    Without a line to follow it is four times as many: enough to see at the next look whether width pays.
    """
    if cost is None:
        return min(slots * 4, max(WIDEST_ADVICE, slots * 2))
    width = slots * 2
    furthest = min(WIDEST_ADVICE, slots * FURTHEST_ADVICE)
    while width * 2 <= furthest and cost.tok_s(width * 2)[0] > cost.tok_s(width)[0] * (1 + WORTH_DOUBLING):
        width *= 2
    return width


def _fast(point: Point) -> tuple[int, float]:
    """(width, seconds a step) at the upper end of the throughput's interval."""
    return point.concurrency, point.concurrency / point.high


def _slow(point: Point) -> tuple[int, float]:
    """(width, seconds a step) at the lower end."""
    return point.concurrency, point.concurrency / point.low


def _least_squares(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return _physical(mean_y - slope * mean_x, slope, points[-1])


def _through(first: tuple[int, float], last: tuple[int, float]) -> tuple[float, float]:
    slope = (last[1] - first[1]) / (last[0] - first[0])
    return _physical(first[1] - slope * first[0], slope, last)


def _physical(fixed_s: float, per_call_s: float, last: tuple[int, float]) -> tuple[float, float]:
    """Neither part of a step can be negative; noise that says so is put down to the other part."""
    if per_call_s < 0:
        return last[1], 0.0
    if fixed_s < 0:
        return 0.0, last[1] / last[0]
    return fixed_s, per_call_s


def _throughput(fixed_s: float, per_call_s: float, width: int) -> float:
    return width / (fixed_s + per_call_s * width)
