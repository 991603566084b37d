"""Axes of the charts: from widths, depths and values to places in the drawing, and where the ticks stand. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from widelane.report.text import number_text


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The plot's edges and the range of widths (concurrency, batch) on it."""

    width: float
    height: float
    left: float
    top: float
    right: float
    bottom: float
    narrowest: int
    widest: int

    def x(self, concurrency: float) -> float:
        """Position on the log2 axis; a single level stands in the middle."""
        if self.widest == self.narrowest:
            return (self.left + self.right) / 2
        share = math.log2(concurrency / self.narrowest) / math.log2(self.widest / self.narrowest)
        return self.left + share * (self.right - self.left)

    def y(self, share: float) -> float:
        """Position of 0 (bottom) … 1 (top)."""
        return self.bottom - share * (self.bottom - self.top)


@dataclass(frozen=True, slots=True)
class LinearFrame(Frame):
    """The same with a linear axis: 0 stands at the left edge."""

    def x(self, value: float) -> float:
        """Position of a value from `narrowest` (left) to `widest` (right)."""
        return self.left + (value - self.narrowest) / (self.widest - self.narrowest) * (self.right - self.left)


def frame_of(widths: Sequence[int], width: float, height: float, *, right: float, left: float = 46) -> Frame:
    """The plot inside a drawing of this size, with room for the labels left, right and below."""
    return Frame(width, height, left, 14, width - right, height - 40, min(widths), max(widths))


def x_ticks(widths: Sequence[int], frame: Frame) -> list[Tick]:
    """A mark for every width; only powers of two carry their number, or all where there is none."""
    widths = sorted(set(widths))
    named = {width for width in widths if width & (width - 1) == 0} or set(widths)
    return [Tick(frame.x(width), number_text(width) if width in named else "") for width in widths]


def linear_ticks(top: float, about: int = 5) -> list[float]:
    """0 and the multiples of 1, 2 or 5 × 10ⁿ up to `top`, `about` of them."""
    raw = top / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    return [round(index * step, 10) for index in range(math.floor(top / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round values on and about the given ones, the finest series (down to 1, 10, 100) that needs at most six."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        every = [factor * 10.0**decade for decade in decades for factor in factors]
        below = [value for value in every if value <= low * 1.001]
        above = [value for value in every if value >= high * 0.999]
        first, last = (below or every)[-1 if below else 0], (above or every)[0 if above else -1]
        ticks = [round(value, 12) for value in every if first <= value <= last]
        if 2 <= len(ticks) <= 6:
            return ticks
    return ticks if len(ticks) >= 2 else [ticks[0] / 2, ticks[0] * 2]
