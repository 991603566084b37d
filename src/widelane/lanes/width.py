"""How many calls may be in flight now: the stated width, cut when the server sheds load, and won back. Pure.

Additive increase, multiplicative decrease (Chiu and Jain 1989, as TCP does it): a cut halves what was in flight, and
each round of successes adds one call. One overload hits many calls at once and is cut for once only: a call that was
sent before the last cut says nothing about the width after it.
"""

from __future__ import annotations

from dataclasses import dataclass

CUT = 0.5
POOL_CUT = 0.8
"""A full KV pool is a sharp edge, not a queue: a fifth less is enough to get off it."""


class WidthControl:
    """The width in force, between 1 and the ceiling.

    Attributes:
        adaptive: False keeps the width at the ceiling whatever happens (measuring).
    """

    def __init__(self, ceiling: int, *, adaptive: bool = True) -> None:
        if ceiling < 1:
            raise ValueError(f"width must be at least 1, not {ceiling}")
        self.adaptive = adaptive
        self._ceiling = ceiling
        self._level = float(ceiling)
        self._cut_at_send = -1

    @property
    def ceiling(self) -> int:
        """The stated width."""
        return self._ceiling

    @ceiling.setter
    def ceiling(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"width must be at least 1, not {value}")
        # A width that was cut stays cut; one that was not follows the ceiling up.
        uncut = self._level >= self._ceiling
        self._ceiling = value
        self._level = float(value) if uncut else min(self._level, value)

    @property
    def current(self) -> int:
        """Calls that may be in flight now."""
        return max(1, int(self._level))

    def shed(self, *, sent: int, last_sent: int, in_flight: int) -> bool:
        """A call failed because the server had too much to do; True when the width was cut for it.

        Args:
            sent: number of the failed sending, counted over the run.
            last_sent: number of the latest sending of any call.
            in_flight: calls in flight when it failed, itself included: the width that was too much.
        """
        if not self.adaptive or sent <= self._cut_at_send:
            return False
        self._cut_at_send = last_sent
        self._level = max(1.0, min(self._level, in_flight) * CUT)
        return True

    def succeeded(self) -> None:
        """A call ended well: a full round of them wins one call back."""
        self._level = min(float(self._ceiling), self._level + 1.0 / self._level)


@dataclass(slots=True)
class PoolBound:
    """Bound on the tokens in flight, lowered when the server's shared pool overflowed."""

    tokens: int | None
    _cut_at_send: int = -1

    def overflowed(self, *, sent: int, last_sent: int, tokens_in_flight: int) -> bool:
        """True when the bound was lowered: to four fifths of what was in flight. Once for all calls it failed."""
        if sent <= self._cut_at_send:
            return False
        self._cut_at_send = last_sent
        lower = max(1, int(tokens_in_flight * POOL_CUT))
        self.tokens = lower if self.tokens is None else min(self.tokens, lower)
        return True
