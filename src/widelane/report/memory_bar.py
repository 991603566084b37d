"""The memory of a plan as one stacked bar: shares, colours, and which parts have room for their name. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from widelane.figures import Figure
from widelane.plan.report import MemoryPart
from widelane.report.text import bytes_text, value_text

_COLOURS = (
    ("weight", "blue"),
    ("draft", "violet"),
    ("activation", "rose"),
    ("graph", "rose"),
    ("compute", "rose"),
    ("state", "amber"),
    ("pool", "green"),
    ("cache", "green"),
    ("free", "none"),
    ("reserve", "grey"),
    ("driver", "grey"),
)
"""A word of the part's name → its colour; the first that fits. What is free is left empty."""
_FURTHER = ("violet", "rose", "amber", "green")
_SIGN_PX = 7.6
"""Width of one character of a label, its padding not included."""
_PADDING_PX = 18.0
_WIDE_PX, _NARROW_PX = 660.0, 300.0
"""Least width of the bar on a wide screen or on paper, and on a narrow screen."""
_END_TOLERANCE = 1.001
"""Parts that sum to more than the memory by less than this only differ by rounding."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One part.

    Attributes:
        start, width: in percent of the bar; None when its size is not known or nothing.
        share: percent of the parts together, None when its size is not known.
        named: `always` where its name fits inside on every screen, `wide` where it needs a wide one, else `never`.
    """

    name: str
    colour: str
    figure: Figure
    start: float | None
    width: float | None
    share: float | None
    named: str


@dataclass(frozen=True, slots=True)
class MemoryBar:
    """The bar.

    Attributes:
        ends_at: percent of the bar at which the device's memory ends; None when the parts stay within it.
        words: the whole bar in a sentence.
        overflow: what to say where the device's memory ends before the parts do, else empty.
    """

    segments: Sequence[Segment]
    ends_at: float | None
    words: str
    overflow: str


def memory_bar(parts: Sequence[MemoryPart], memory: Figure) -> MemoryBar | None:
    """The bar, as long as the parts together: they add up to all there is, or to more. None without any part."""
    sizes = [drawn_bytes(part.bytes) for part in parts]
    total, installed = sum(sizes), drawn_bytes(memory)
    if total <= 0:
        return None
    segments, start = [], 0.0
    for index, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        drawn = size > 0
        segments.append(
            Segment(
                name=part.name,
                colour=_colour(part.name, index),
                figure=part.bytes,
                start=100 * start / total if drawn else None,
                width=100 * size / total if drawn else None,
                share=100 * size / total if part.bytes.number is not None else None,
                named=_named(part, size / total),
            )
        )
        start += size
    words = ", ".join(f"{part.name} {value_text(part.bytes)}" for part in parts)
    too_much = installed > 0 and total > installed * _END_TOLERANCE
    overflow = f"The parts need {bytes_text(total)}; the device has {value_text(memory)}." if too_much else ""
    return MemoryBar(segments, 100 * installed / total if too_much else None, words, overflow)


def drawn_bytes(figure: Figure) -> float:
    """The size that is drawn: nothing for what is not known or no size at all."""
    size = figure.number or 0.0
    return size if math.isfinite(size) and size > 0 else 0.0


def _colour(name: str, index: int) -> str:
    lower = name.lower()
    return next((colour for word, colour in _COLOURS if word in lower), _FURTHER[index % len(_FURTHER)])


def _named(part: MemoryPart, share: float) -> str:
    needed = max(len(part.name), len(value_text(part.bytes))) * _SIGN_PX + _PADDING_PX
    if share * _NARROW_PX >= needed:
        return "always"
    return "wide" if share * _WIDE_PX >= needed else "never"
