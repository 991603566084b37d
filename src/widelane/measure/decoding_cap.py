"""How many calls a server decodes together at most, read off the levels of a sweep. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from widelane.measure.knee import plateau_tok_s, points
from widelane.measure.profile import Level

_WIDER = 1.4
"""How much wider a second level must be to show that the width no longer follows what is offered."""
_OCCUPANCY_TOLERANCE = 1.25


@dataclass(frozen=True, slots=True)
class DecodingCap:
    """The server decodes `slots` calls together and lets the others wait.

    Attributes:
        offered: widest level at which it was seen.
        occupied: calls that held a slot at one time, by Little's law; None when it cannot be computed.
    """

    slots: int
    offered: int
    occupied: float | None


def find_cap(levels: Sequence[Level], output_tokens: float) -> DecodingCap | None:
    """The cap, or None when the calls decoding together still followed the calls offered.

    Two signs, of which one is enough: the same width at two levels of which one is much wider; or one level where the
    calls holding a slot (rate x time in a slot, Little's law) are as many as decode together, and more were offered.

    A server that works on one long prompt after another also decodes few calls together, yet its calls spend their
    time in prefill beside each other: then more calls hold a slot than decode together, and it is no cap.
    """
    seen = [
        (level, int(width)) for level in levels if (width := level.decoding_together.number) is not None and width > 0
    ]
    if not seen:
        return None
    slots = max(width for _, width in seen)
    wider = [level for level, _ in seen if level.concurrency > slots]
    if not wider:
        return None
    occupied = _occupied([level for level in wider if level.concurrency >= _WIDER * slots], levels, output_tokens)
    if occupied is not None and occupied > _OCCUPANCY_TOLERANCE * slots:
        return None
    widest = max(level.concurrency for level in wider)
    missed = 1 if slots >= 10 else 0  # one call in ten may not have met all the others in a short window
    reached = min(level.concurrency for level, width in seen if width >= slots - missed)
    if widest >= _WIDER * reached or (
        occupied is not None and widest >= _WIDER * slots and occupied > slots / _OCCUPANCY_TOLERANCE
    ):
        return DecodingCap(slots, widest, occupied)
    return None


def _occupied(wide: Sequence[Level], levels: Sequence[Level], output_tokens: float) -> float | None:
    """Median calls in a slot: calls/s x (seconds of prefill alone + seconds of decoding)."""
    alone = [ttft for level in levels if (ttft := level.ttft_s.p50.number) is not None]
    if not alone or output_tokens < 2:
        return None
    held = []
    for level in _with_figures(wide):
        rate = (level.output_tok_s.number or 0.0) / output_tokens
        held.append(rate * (min(alone) + (level.tpot_s.p50.number or 0.0) * (output_tokens - 1)))
    return statistics.median(held) if held else None


def _with_figures(levels: Sequence[Level]) -> list[Level]:
    """The levels that have both a throughput and a TPOT."""
    return [level for level in levels if level.output_tok_s.number is not None and level.tpot_s.p50.number is not None]


def gain_per_doubling(levels: Sequence[Level], slots: int) -> tuple[float, float] | None:
    """What the last doublings up to `slots` brought: (factor a doubling, the most that the intervals allow).

    1.0 is nothing, 2.0 is all. From the narrowest level of at least a quarter of the slots, or from a still narrower
    one that was as fast; None when no narrower level was measured, so that nothing is known about what a slot is worth.
    """
    known = points(levels)
    below = [point for point in known if point.concurrency < slots]
    full = [point for point in known if point.concurrency >= slots]
    if not below or not full:
        return None
    quarter = next((point for point in below if point.concurrency >= slots / 4), below[-1])
    base = next(point for point in below if point.value >= quarter.value)
    doublings = math.log2(slots / base.concurrency)
    value = plateau_tok_s(known, slots)
    high = statistics.median(point.high for point in full)
    low = max(base.low, 1e-9)
    return (value / base.value) ** (1 / doublings), (high / low) ** (1 / doublings)
