"""How far predicted decode steps are from measured ones, and how often they order two configurations rightly."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence

from step_rows import Step

BANDS = ((0.0, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 0.5), (0.5, 1.0), (1.0, float("inf")))
"""How much faster the faster of two configurations is."""
SAME_CONTEXT = 1.25


def scores(steps: Sequence[Step], predicted: Sequence[float]) -> dict[str, float]:
    """Median and 90th percentile of the absolute percentage error, of all steps and of those without doubt; and
    between which times the prediction nine in ten measured steps lie."""
    errors = [100.0 * abs(value / step.measured_s - 1.0) for step, value in zip(steps, predicted, strict=True)]
    sure = [error for step, error in zip(steps, errors, strict=True) if not step.doubtful] or errors
    ratios = [step.measured_s / value for step, value in zip(steps, predicted, strict=True)]
    return {
        "median": statistics.median(errors),
        "p90": percentile(errors, 0.9),
        "median_without_doubtful": statistics.median(sure),
        "p90_without_doubtful": percentile(sure, 0.9),
        "measured_over_predicted_p5": percentile(ratios, 0.05),
        "measured_over_predicted_p95": percentile(ratios, 0.95),
    }


def percentile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between the two nearest ranks."""
    ranked = sorted(values)
    position = share * (len(ranked) - 1)
    low = int(position)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (position - low) * (ranked[high] - ranked[low])


def ordered(steps: Sequence[Step], predicted: Sequence[float]) -> list[dict[str, float | int | None]]:
    """For each band of difference: comparable pairs of steps of two configurations, and the share ordered rightly."""
    rightly: dict[tuple[float, float], list[bool]] = {band: [] for band in BANDS}
    at_batch: dict[tuple[int, int], list[tuple[Step, float]]] = defaultdict(list)
    for step, value in zip(steps, predicted, strict=True):
        at_batch[step.batch, step.draft_depth].append((step, value))
    for members in at_batch.values():
        for (one, one_s), (other, other_s) in itertools.combinations(members, 2):
            if one.configuration == other.configuration or not same_context(one, other):
                continue
            ratio = max(one.measured_s, other.measured_s) / min(one.measured_s, other.measured_s) - 1.0
            band = next(band for band in BANDS if band[0] <= ratio < band[1])
            rightly[band].append((one.measured_s < other.measured_s) == (one_s < other_s))
    return [
        {"from": low, "to": None if high == float("inf") else high, "pairs": len(held), "rightly": share(held)}
        for (low, high), held in rightly.items()
    ]


def same_context(one: Step, other: Step) -> bool:
    near, far = sorted((one.context, other.context))
    return far <= SAME_CONTEXT * near + 512


def share(held: Sequence[bool]) -> float | None:
    return sum(held) / len(held) if held else None
