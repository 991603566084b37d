"""All runs that a prediction is made of: each arm at each width, for each chance, made once."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from widelane.predict.chance import Chance
from widelane.predict.server import PredictedServer
from widelane.predict.shape import Shape
from widelane.predict.simulate import OpenBackend, Run, run_once
from widelane.predict.speedup import Sample
from widelane.predict.trace import busy

MOST_RUNS = 20
_SIMULATED_CALLS = 1_000
"""Calls of one arm at one width, over all runs together, that are worth the time."""
_LEAST_RUNS = 5


def run_count(shape: Shape, server: PredictedServer) -> int:
    """Runs of each arm: one where nothing varies; of small jobs, which vary most, more than of large ones."""
    if not (shape.varies or server.varies):
        return 1
    return max(_LEAST_RUNS, min(MOST_RUNS, _SIMULATED_CALLS // shape.calls))


class Runs:
    """The runs of one shape on one server.

    Runs at different widths have the same chances: differences are those of the width.
    """

    def __init__(
        self,
        shape: Shape,
        open_backend: OpenBackend,
        chances: Sequence[Chance],
        told: Callable[[str], None] | None = None,
    ) -> None:
        """Args:
        told: called with what is being run, before it is.
        """
        self._shape, self._open_backend, self._chances = shape, open_backend, chances
        self._told = told or (lambda _: None)
        self._made: dict[int, list[Run]] = {}
        self._instead: list[Run] = []

    def at(self, width: int) -> list[Run]:
        """The job on so many lanes, one run for each chance."""
        if width not in self._made:
            self._told(f"{width:,} lane" if width == 1 else f"{width:,} lanes")
            self._made[width] = self._run(width)
        return self._made[width]

    def instead(self) -> list[Run]:
        """What would be done instead, on one lane."""
        if self._shape.instead is self._shape.work:
            return self.at(1)
        if not self._instead:
            self._told("instead")
            work = self._shape.instead
            self._instead = [run_once(work, self._open_backend, width=1, chance=chance) for chance in self._chances]
        return self._instead

    def wall_s(self, width: int) -> float:
        """Mean wall clock at a width."""
        return mean_wall_s(self.at(width))

    def samples(self, width: int) -> list[Sample]:
        """Each run at a width beside what would be done instead."""
        return [
            Sample(instead.wall_s, run.wall_s, busy(run.spans).shared_s)
            for instead, run in zip(self.instead(), self.at(width), strict=True)
        ]

    def _run(self, width: int) -> list[Run]:
        return [run_once(self._shape.work, self._open_backend, width=width, chance=chance) for chance in self._chances]


def mean_wall_s(runs: Sequence[Run]) -> float:
    """Mean wall clock of some runs."""
    return statistics.fmean(run.wall_s for run in runs)
