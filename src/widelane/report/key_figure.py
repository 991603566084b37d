"""One of the few large numbers on top of a page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One of the few large numbers on top: what it is, the number, its unit, and a line of small print."""

    name: str
    value: str
    unit: str
    note: str
