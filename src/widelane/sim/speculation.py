"""How many tokens each step of a call brings when a draft is checked in it: one, and the drafted ones kept.

A drafted token counts only when all before it were kept, so with acceptance a1, a2, … by position

    P(at least m + 1 tokens) = a1 * ... * am        E = 1 + a1 + a1 a2 + ...
"""

from __future__ import annotations

from itertools import accumulate
from operator import mul
from random import Random

from widelane.sim.live_call import LiveCall


class Drafting:
    """The draws of an engine that drafts `depth` tokens for each sequence and step.

    Attributes:
        mean_tokens: tokens a step on average (E).
    """

    __slots__ = ("_counts", "_weights", "depth", "mean_tokens")

    def __init__(self, depth: int, acceptance: tuple[float, ...]) -> None:
        self.depth = depth
        reached = list(accumulate(acceptance[:depth], mul, initial=1.0))
        self.mean_tokens = sum(reached)
        self._counts = range(1, depth + 2)
        # choices() takes cumulative weights: P(at most m tokens) = 1 - P(more than m).
        self._weights = [1.0 - share for share in reached[1:]] + [1.0]

    def written(self, live: LiveCall, tokens: int) -> list[int] | None:
        """Tokens written after 0, 1, 2, … steps until there are `tokens`; None without speculation.

        Drawn from the call's own numbers, all at once: they are the same whoever runs beside it.
        """
        if not self.depth:
            return None
        rng = Random(live.seed + live.draws)
        live.draws += 1
        total, sums = 0, [0]
        while total < tokens:
            steps = int((tokens - total) / self.mean_tokens) + 1
            for drawn in rng.choices(self._counts, cum_weights=self._weights, k=steps):
                total += drawn
                sums.append(total)
                if total >= tokens:
                    break
        sums[-1] = tokens  # what was drafted beyond the end is thrown away
        return sums
