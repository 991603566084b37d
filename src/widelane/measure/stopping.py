"""When a level is known well enough. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from widelane.measure.level import Repeat
from widelane.stats import mean_interval

STEADY_CALLS = 16
"""Calls of the steady state that latencies rest on, or one of each lane where fewer are in flight."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """The rule.

    Attributes:
        precision: half-width of the 95 % interval of throughput, relative.
        min_repeats, max_repeats: windows at least and at most.
    """

    precision: float
    min_repeats: int
    max_repeats: int

    def precise(self, repeats: Sequence[Repeat], concurrency: int) -> bool:
        """Whether the interval is narrow enough and the latencies are those of the steady state."""
        if len(repeats) < self.min_repeats or not _settled(repeats, concurrency):
            return False
        interval = mean_interval([repeat.tok_s for repeat in repeats])
        return interval is not None and interval.relative_half_width <= self.precision

    def exhausted(self, repeats: Sequence[Repeat], concurrency: int) -> bool:
        """Whether more windows would not help any more: all are used, and the latencies are there.

        Latencies may take longer where calls wait for many turns; twice the windows are the end in any case.
        """
        if len(repeats) < self.max_repeats:
            return False
        return _settled(repeats, concurrency) or len(repeats) >= 2 * self.max_repeats


def _settled(repeats: Sequence[Repeat], concurrency: int) -> bool:
    steady = sum(call.usable and not call.opening and call.full_length for repeat in repeats for call in repeat.calls)
    return steady >= min(concurrency, STEADY_CALLS)
