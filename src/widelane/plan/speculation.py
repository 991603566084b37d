"""What drafting tokens ahead buys: expected tokens a step, the best depth, and when it loses.

    E(k) = 1 + a1 + a1 a2 + ... ;   rate = B E(k) / t(B, k)

a_i is the share of drafted tokens kept at position i among those whose predecessors were all kept. t(B, k) is the step
that checks k drafted tokens of every sequence and makes them: experts that they visit, reading of the draft head and
the output layer, arithmetic. Acceptance depends on the text more than on anything else (one server: 1.5 tokens a step
on German prose, 4.9 on arithmetic), so it is an input; the profiles below are assumed where none is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from widelane.plan.step_time import StepCost, StepRates, step_seconds

DEEPEST = 16
"""Drafts beyond this are not looked at."""

ASSUMED_PROFILES: Mapping[str, tuple[float, ...]] = {
    "usual": (0.84, 0.60, 0.39, 0.27),
    "prose": (0.45, 0.20),
    "arithmetic": (0.95, 0.92, 0.90, 0.88, 0.86),
}
"""Acceptance by position, assumed after published runs with multi-token-prediction heads: a typical falling series, and
the two ends that one server showed, 1.5 tokens a step on German prose and 4.9 on arithmetic."""
DEFAULT_PROFILE = "usual"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPlan:
    """Drafting at one depth.

    Attributes:
        depth: drafted tokens a step, 0 without drafting.
        tokens_per_step: expected tokens that one sequence gains in a step.
        step_s: length of that step.
        output_tok_s: tokens/s of the whole batch.
        speed_up: that over the rate without drafting; below 1 it loses.
    """

    depth: int
    tokens_per_step: float
    step_s: float
    output_tok_s: float
    speed_up: float


def expected_tokens(acceptance: Sequence[float], depth: int) -> float:
    """Tokens that a step of `depth` drafted tokens yields; positions that `acceptance` does not reach yield nothing.

    Raises:
        ValueError: an acceptance is no share, or the depth is below 0.
    """
    _check(acceptance, depth)
    kept, tokens = 1.0, 1.0
    for share in acceptance[:depth]:
        kept *= share
        tokens += kept
    return tokens


def acceptance_of_counts(accepted: Sequence[float], drafts: float) -> tuple[float, ...]:
    """Acceptance by position from counters such as vLLM's `accepted_per_pos`: drafts kept up to each position.

    Those count how often a position was kept at all; given that its predecessors were kept is the quotient of two
    neighbours.

    Raises:
        ValueError: there were no drafts, or a position was kept more often than the one before it.
    """
    if not drafts > 0:
        raise ValueError("no drafts were made, so no acceptance can be told")
    shares: list[float] = []
    before = float(drafts)
    for position, count in enumerate(accepted, start=1):
        if not 0 <= count <= before:
            raise ValueError(f"position {position} was kept {count:g} times, the one before it {before:g} times")
        if before == 0:
            break
        shares.append(count / before)
        before = float(count)
    return tuple(shares)


def acceptance_of_length(tokens_per_step: float, depth: int) -> tuple[float, ...]:
    """One acceptance for all positions that gives the observed tokens a step (mean gap between chunks over TPOT).

    Raises:
        ValueError: that many tokens cannot come from `depth` drafted ones.
    """
    if depth < 1 or not 1.0 <= tokens_per_step <= depth + 1:
        raise ValueError(f"{tokens_per_step:g} tokens a step cannot come from {depth} drafted tokens")
    low, high = 0.0, 1.0
    for _ in range(60):  # halving: 2^-60 is below what a double can tell
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens((middle,) * depth, depth) < tokens_per_step else (low, middle)
    return (high,) * depth


def draft_plan(
    cost: StepCost, rates: StepRates, acceptance: Sequence[float], *, batch: int, context: float, depth: int
) -> DraftPlan:
    """What drafting `depth` tokens gives a batch.

    Raises:
        ValueError: an acceptance is no share, or the depth is below 0.
    """
    tokens = expected_tokens(acceptance, depth)
    plain_s = step_seconds(cost, rates, batch=batch, context=context)
    step_s = step_seconds(cost, rates, batch=batch, context=context, draft_depth=depth)
    return DraftPlan(
        depth=depth,
        tokens_per_step=tokens,
        step_s=step_s,
        output_tok_s=batch * tokens / step_s,
        speed_up=tokens * plain_s / step_s,
    )


def draft_plans(
    cost: StepCost, rates: StepRates, acceptance: Sequence[float], *, batch: int, context: float
) -> list[DraftPlan]:
    """Every depth for which an acceptance is given, from 0 (no drafting) up."""
    deepest = min(len(acceptance), DEEPEST)
    return [
        draft_plan(cost, rates, acceptance, batch=batch, context=context, depth=depth) for depth in range(deepest + 1)
    ]


def best_depth(
    cost: StepCost, rates: StepRates, acceptance: Sequence[float], *, batch: int, context: float
) -> DraftPlan:
    """The depth with the highest rate; depth 0 where drafting loses. The shallower one of equals."""
    plans = draft_plans(cost, rates, acceptance, batch=batch, context=context)
    return max(plans, key=lambda plan: (plan.output_tok_s, -plan.depth))


def losing_batch(
    cost: StepCost, rates: StepRates, acceptance: Sequence[float], *, context: float, depth: int, widest: int = 512
) -> int | None:
    """The smallest batch at which drafting `depth` tokens is slower than not drafting, None up to `widest`."""
    return next(
        (
            batch
            for batch in range(1, widest + 1)
            if draft_plan(cost, rates, acceptance, batch=batch, context=context, depth=depth).speed_up < 1.0
        ),
        None,
    )


def _check(acceptance: Sequence[float], depth: int) -> None:
    if depth < 0:
        raise ValueError(f"a depth is 0 or more, not {depth}")
    for share in acceptance:
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"acceptance {share!r} is no share between 0 and 1")
