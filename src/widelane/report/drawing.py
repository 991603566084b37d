"""What every chart is made of: points, lines with their intervals, paths. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

_LABEL_GAP = 15.0
"""Least distance between two labels at the right edge."""


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Series:
    """One line: `css` is its class, `band` the path of its interval (empty where there is none)."""

    css: str
    name: str
    points: Sequence[Point]
    line: str
    band: str = ""
    label_y: float | None = None


def line_path(points: Sequence[tuple[float, float]]) -> str:
    """The points joined by straight lines, as an SVG path."""
    return "".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points))


def band_path(upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]]) -> str:
    """The area between two lines over the same places; empty for fewer than two."""
    return f"{line_path([*upper, *reversed(lower)])}Z" if len(upper) > 1 else ""


def spread_labels(series: Sequence[Series]) -> list[Series]:
    """Labels at the lines' right ends, moved apart where the lines meet. The series come from the top down."""
    placed: list[Series] = []
    floor = -math.inf
    for one in series:
        label_y = max(one.points[-1].y, floor)
        floor = label_y + _LABEL_GAP
        placed.append(replace(one, label_y=label_y))
    return placed
