"""The two numbers of the very server that a plan is for, from decode steps measured on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from widelane.plan.fit import MachineFit, Prior, fit_machine
from widelane.plan.outlook import as_stated
from widelane.plan.rates import observation
from widelane.plan.request import PlanRequest

OWN_STEPS = 0.0002
"""Steps of the very machine outweigh what is usual: departing by one spread costs as much as missing a row by 1.4 %."""


class MeasuredStep(NamedTuple):
    """One decode step as it was seen.

    Attributes:
        batch: sequences that decoded together.
        context_tokens: tokens that each of them held, on average.
        step_s: its length in seconds: time per output token, without drafts.
    """

    batch: int
    context_tokens: float
    step_s: float


def fit_of(request: PlanRequest, steps: Sequence[MeasuredStep]) -> MachineFit:
    """The fit of these steps under the request's model, device and engine."""
    cost = as_stated(request).cost
    seen = [
        observation(
            request.device,
            request.engine,
            cost,
            batch=step.batch,
            context=step.context_tokens,
            measured_s=step.step_s,
        )
        for step in steps
    ]
    return fit_machine(seen, prior=Prior(weight=OWN_STEPS))
