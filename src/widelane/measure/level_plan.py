"""What one level's run is given, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from widelane.measure.calls import CallRecord
from widelane.measure.level import Repeat
from widelane.measure.stopping import Stopping
from widelane.records import Span

_OVERTIME = 1.25
"""One window has no interval. More than this would take the time of the levels still to come."""


class Ending(StrEnum):
    """Why a level ended."""

    PRECISE = "precise"
    REPEATS = "repeats"
    TIME = "time"
    FAILING = "failing"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPlan:
    """What to run.

    Attributes:
        seconds: the level's share of the time; without two windows, which give an interval, it may take `_OVERTIME`
            times as long, yet no longer than `most_seconds`.
        slots: calls that the server decodes together, as far as known; the others wait.
        earlier: repeats that an interrupted run of this level has left; they count like its own.
    """

    concurrency: int
    output_tokens: int
    seconds: float
    most_seconds: float
    min_window_s: float
    stopping: Stopping
    slots: int | None = None
    earlier: tuple[Repeat, ...] = ()

    def seconds_for(self, repeats: int) -> float:
        """How long it may take, with so many repeats done."""
        return min(self.most_seconds, self.seconds * (1 if repeats >= 2 else _OVERTIME))

    @property
    def shortened(self) -> int:
        """Opening calls that are shortened: those that get a slot at once."""
        return min(self.concurrency, self.slots or self.concurrency)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """What came of it.

    Attributes:
        repeats: all of them, with the earlier ones.
        tail: calls that ended after the last window: their tokens count nowhere, their latencies and failures do.
        spans: for the timeline.
    """

    repeats: tuple[Repeat, ...]
    ending: Ending
    tail: tuple[CallRecord, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """How a level stands, for a progress display."""

    concurrency: int
    repeats: int
    elapsed_s: float
    tok_s: float | None
