"""Which widths are tried, and which of them is worth using. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from widelane.measure.knee import KNEE_SHARE

WIDEST = 1024
"""Lanes of the widest run; no local server decodes more sequences together."""
_MOST_WIDTHS = 24


def widths_to_try(most: int, slots: int | None = None) -> list[int]:
    """Rising widths from 1 to `most`: powers of two, and the smallest width for each number of rounds.

    24 items take two rounds on 12 lanes as on 16: the smallest width of each number of rounds is the one to know.

    Args:
        most: calls that the job can have in flight at one time.
        slots: sequences that the server decodes together, where known; a width of its own.
    """
    if most <= 16:
        return list(range(1, max(1, most) + 1))
    found = {1 << power for power in range(most.bit_length()) if 1 << power <= most}
    rounds = 1
    while len(found) < _MOST_WIDTHS and -(-most // rounds) > 8:
        found.add(-(-most // rounds))
        rounds += 1
    if slots is not None and slots <= most:
        found.add(slots)
    return sorted(found)


def lanes_worth_using(wall_s: Mapping[int, float]) -> int:
    """The smallest width that is nearly (95 %) as fast as the fastest."""
    fastest = min(wall_s.values())
    return min(width for width, seconds in wall_s.items() if seconds * KNEE_SHARE <= fastest)
