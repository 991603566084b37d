"""How long items must be for splitting to pay: where the split job takes as long as what is done instead. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MOST_ITEM_TOKENS = 32_768
"""Longer items are not looked at: few models write more in one answer."""
_PRECISION = 1.02
_STILL_RISING = 1.005
"""Where items twice as long gain less than this more, no length will do."""


@dataclass(frozen=True, slots=True)
class Crossover:
    """Tokens an item from which splitting pays; None with the reason where there is no such length."""

    tokens: int | None
    reason: str


def find_crossover(gain_at: Callable[[float], float | None], item_tokens: float) -> Crossover:
    """The shortest items, within 2 %, for which the gain is at least 1.

    Args:
        gain_at: the speed-up with items so many times as long as they are; it rises with the length, towards what it
            would be without overhead. None where the server cannot do the job at that length.
        item_tokens: how long items are.
    """
    shortest = 1.0 / item_tokens
    if _pays(gain_at(shortest)):
        return Crossover(1, "items of any length repay the splitting")
    low, high = shortest, 1.0
    gain = gain_at(high)
    while not _pays(gain):
        longer = None if high * 2 * item_tokens > MOST_ITEM_TOKENS else gain_at(high * 2)
        if gain is None or longer is None or longer < gain * _STILL_RISING:
            return Crossover(None, f"not even items of {round(high * item_tokens):,} tokens repay the splitting here")
        low, high, gain = high, high * 2, longer
    while high / low > _PRECISION and (high - low) * item_tokens > 1:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _pays(gain_at(middle)) else (middle, high)
    return Crossover(max(1, round(high * item_tokens)), "")


def _pays(gain: float | None) -> bool:
    return gain is not None and gain >= 1.0
