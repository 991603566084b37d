"""What the charts of a plan are made of: lines, stacked layers, marks, and stretches that tell their figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from widelane.figures import Figure
from widelane.report.axis import Frame, Tick
from widelane.report.drawing import Point, Series, band_path, line_path

_SIGN_WIDTH = 11.0
"""Room for one character of an axis label on a narrow screen, where letters are drawn larger."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Mark:
    """A width worth knowing: a line from top to bottom with words at one end of it.

    Attributes:
        row: line of text that the words stand on, 0 is the topmost.
        leftward: the words end at the line instead of beginning there.
    """

    css: str
    at: float
    label: str
    row: int
    leftward: bool


@dataclass(frozen=True, slots=True)
class Layer:
    """One part of the stack: `css` is its class, `path` its area."""

    css: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Hover:
    """A stretch of the plot that tells its figures when pointed at."""

    x: float
    width: float
    label: str


@dataclass(frozen=True, slots=True)
class Whisker:
    """The interval of one value."""

    x: float
    top: float
    bottom: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChart:
    """One drawing.

    Attributes:
        pool_ends: where the KV pool is full; what lies right of it is drawn faintly. None when it does not end here.
        level: height of twice the step of one request, marked from the left edge to `level_until`.
        ideal: path of the line that throughput would follow if lanes cost nothing.
    """

    name: str
    title: str
    x_title: str
    frame: Frame
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    series: Sequence[Series] = ()
    layers: Sequence[Layer] = ()
    whiskers: Sequence[Whisker] = ()
    hovers: Sequence[Hover] = ()
    marks: Sequence[Mark] = ()
    pool_ends: float | None = None
    level: float | None = None
    level_until: float = 0.0
    ideal: str = ""


def line_series(
    css: str,
    points: Sequence[_T],
    of: Callable[[_T], Figure],
    x: Callable[[_T], float],
    y: Callable[[float], float],
    words: Callable[[_T], str],
) -> Series:
    """A line over the points whose figure is known, with the band of its interval."""
    places = [Point(x(point), y(of(point).number or 0.0), words(point)) for point in points]
    bounded = [(x(point), *bounds) for point in points if (bounds := interval(of(point)))]
    above, below = [(at, y(high)) for at, _, high in bounded], [(at, y(low)) for at, low, _ in bounded]
    return Series(css, css, places, line_path([(one.x, one.y) for one in places]), band_path(above, below))


def is_drawn(figure: Figure) -> bool:
    """Whether the figure is known, and a number that has a place: neither negative nor endless."""
    return figure.number is not None and math.isfinite(figure.number) and figure.number >= 0


def upper(figure: Figure) -> float:
    """The most that a figure may be, above 0."""
    return max((figure.number or 0.0, *(interval(figure) or ()))) or 1e-9


def interval(figure: Figure) -> tuple[float, float] | None:
    """Low and high, from 0 up; None where there is no interval that could be drawn."""
    low, high = figure.low, figure.high
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return None
    return max(0.0, low), max(0.0, high)


def label_room(ticks: Sequence[float]) -> float:
    """What the labels of a y axis take left of the plot."""
    return max(36.0, 12.0 + _SIGN_WIDTH * max(len(f"{value:,.10g}") for value in ticks))
