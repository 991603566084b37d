"""Pass probabilities for a set of problems: a beta distribution, with some problems that are out of reach.

Repeated sampling on real sets is well described so (Kazdan et al., arXiv 2510.05197, a zero-inflated beta-binomial).
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from widelane.errors import UsageError


def drawn_pass_rates(
    ids: Iterable[str], *, mean: float, concentration: float = 2.0, unreachable: float = 0.0, seed: int
) -> dict[str, float]:
    """A pass probability for every problem; each depends on the seed and its own id alone.

    Args:
        mean: of the problems within reach, 0 to 1.
        concentration: a + b of the beta distribution: small makes problems either easy or hard, large makes them alike.
        unreachable: share of the problems whose probability is 0.

    Raises:
        UsageError: a number is out of range.
    """
    if not 0 <= mean <= 1 or not 0 <= unreachable <= 1:
        raise UsageError(f"A mean pass rate and a share lie between 0 and 1, not {mean} and {unreachable}.")
    if not 0 < concentration < float("inf"):
        raise UsageError(f"The concentration of pass rates is above 0, not {concentration}.")
    return {name: _drawn(random.Random(f"{seed}/{name}"), mean, concentration, unreachable) for name in ids}


def _drawn(rng: random.Random, mean: float, concentration: float, unreachable: float) -> float:
    if rng.random() < unreachable:
        return 0.0
    return mean if mean in (0, 1) else rng.betavariate(mean * concentration, (1 - mean) * concentration)
