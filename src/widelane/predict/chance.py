"""The chance in a run: the same whatever the width, and spread evenly over the runs of a prediction."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chance:
    """Where one run's chance comes from.

    Attributes:
        seed: of all that is drawn for single calls.
        share: above 0 and below 1: how lucky the run is with what decides it most. Spread evenly over the runs, it
            gives an average of few runs that is as good as one of very many.
    """

    seed: int
    share: float

    def rng(self, what: str) -> random.Random:
        """A generator for one thing alone, so that nothing depends on the order in which things are drawn."""
        return random.Random(f"{self.seed} {what}")


def chances(seed: int, count: int) -> list[Chance]:
    """The chance of `count` runs."""
    return [Chance(seed + index, (index + 0.5) / count) for index in range(count)]
