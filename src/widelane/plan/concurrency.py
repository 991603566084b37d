"""How many lanes a pool carries: from what calls really take up, not from the longest that is allowed.

Planning by `max_tokens` counts a fuse as a reservation: three calls of at most 60,000 tokens "fill" a pool that holds
eight of the 15,000 that calls really take. What matters is how often the calls in flight need more than the pool, and
that is a sum of independent lanes (`sums`), looked at in two ways (`occupancy`):

- *in step*: all lanes at the ends of their calls. The conservative reading; right for calls that begin together.
- *out of step*: each lane somewhere on its way. What a long-running job settles into.

`lanes` is the smaller of the two. Usually that is the first; where outputs vary by more than their mean it is the
second, because at any moment the long calls are over-represented. In both, chance means: at such a moment, the calls
in flight need more than the pool. vLLM and SGLang then preempt a call and compute it anew; llama.cpp's unified pool
fails every running call, so a smaller risk is apt there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from widelane.errors import UsageError
from widelane.plan.footprint import Footprint, PastCall
from widelane.plan.occupancy import courses, ends, on_the_way
from widelane.plan.sums import Most, most_within, times_within

RISK: Final = 0.01
MOST_LANES: Final = 4096
"""Beyond any engine's batch (llama.cpp 256, vLLM 1024 by default)."""
FEW_CALLS: Final = 30
"""Below this a file of past runs says little about the longest calls."""

Need = Callable[[int], float]
"""What one sequence of so many tokens takes of the pool, in the pool's units (blocks, tokens, bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesPlan:
    """How many lanes to run.

    Attributes:
        lanes: the most that keep the chance of a full pool below `risk`, both in step and out of step; 0 when not even
            one call fits that surely.
        chance: of a full pool with `lanes`, in the worse of the two ways.
        in_step: lanes if all reach the ends of their calls together.
        out_of_step: lanes once they are spread over their calls; below `in_step` where a few calls are very long.
        if_worst_case: lanes if every call took `max_tokens`, None when no such limit was given.
        slower: how many times longer the same work takes with `if_worst_case` lanes than with `lanes`; None when
            either is 0 or there is no such limit.
        slower_assumed: True when `slower` takes width to be free (the ratio of the lanes), an upper bound.
        mean_tokens: mean footprint at a call's end, cut off at `max_tokens`.
        notes: what a reader should know, one sentence each.
    """

    lanes: int
    chance: float
    risk: float
    in_step: int
    out_of_step: int
    if_worst_case: int | None
    slower: float | None
    slower_assumed: bool
    mean_tokens: float
    notes: tuple[str, ...] = ()


def plan_lanes(
    calls: Sequence[PastCall] | Footprint,
    *,
    need: Need,
    pool: float,
    max_tokens: int | None = None,
    risk: float = RISK,
    most: int = MOST_LANES,
    total_tok_s: Callable[[int], float] | None = None,
) -> LanesPlan:
    """The most lanes that keep the chance of a full pool below `risk`. Exact, so the same input gives the same answer.

    Args:
        calls: past calls, or their mean and spread.
        need: what a sequence of so many tokens takes of the pool; never falls with the tokens.
        pool: the pool's size in the same units.
        max_tokens: the longest a call may get, prompt included; None where nothing limits it.
        most: places of the server, where they limit the answer.
        total_tok_s: tokens/s of all lanes together at a width, for what the worst case would cost.

    Raises:
        UsageError: there are no calls, or the numbers cannot be.
    """
    _check(calls, pool, max_tokens, risk)
    lanes = courses(calls, max_tokens)
    by_end = ends(lanes)
    in_step = most_within(_needs(by_end, need), pool, risk=risk, most=most)
    out_of_step = most_within(_needs(on_the_way(lanes), need), pool, risk=risk, most=most)
    chosen: Most = min(in_step, out_of_step, key=lambda found: (found.number, -found.chance))
    worst = None if max_tokens is None else times_within(pool, need(max_tokens), most)
    return LanesPlan(
        lanes=chosen.number,
        chance=chosen.chance,
        risk=risk,
        in_step=in_step.number,
        out_of_step=out_of_step.number,
        if_worst_case=worst,
        slower=_slower(chosen.number, worst, total_tok_s),
        slower_assumed=total_tok_s is None,
        mean_tokens=sum(tokens * share for tokens, share in by_end.items()),
        notes=_notes(calls, in_step, out_of_step, max_tokens),
    )


def _check(calls: Sequence[PastCall] | Footprint, pool: float, max_tokens: int | None, risk: float) -> None:
    if not isinstance(calls, Footprint) and not calls:
        raise UsageError("No past calls to plan from; state a typical footprint instead, such as 12k-18k.")
    if not 0 <= pool < math.inf:
        raise UsageError(f"A pool of {pool} cannot be; give its size in the units of a sequence's need.")
    if max_tokens is not None and max_tokens < 1:
        raise UsageError(f"A call of at most {max_tokens} tokens cannot be; give at least 1.")
    if not 0.0 < risk < 1.0:
        raise UsageError(f"A risk of {risk} cannot be; give a share between 0 and 1, such as 0.01.")


def _needs(tokens: Mapping[int, float], need: Need) -> dict[float, float]:
    """Shares by what the pool has to give."""
    found: dict[float, float] = {}
    for count, share in tokens.items():
        amount = need(count)
        found[amount] = found.get(amount, 0.0) + share
    return found


def _slower(lanes: int, worst: int | None, total_tok_s: Callable[[int], float] | None) -> float | None:
    if not lanes or not worst:
        return None
    return lanes / worst if total_tok_s is None else total_tok_s(lanes) / total_tok_s(worst)


def _notes(
    calls: Sequence[PastCall] | Footprint, in_step: Most, out_of_step: Most, max_tokens: int | None
) -> tuple[str, ...]:
    notes = []
    if isinstance(calls, Footprint):
        if calls.assumed:
            notes.append(f"The spread of the footprints is assumed: {calls.spread_tokens:,.0f} tokens.")
    else:
        if len(calls) < FEW_CALLS:
            notes.append(f"Only {len(calls)} past calls: one longer than all of them is not reckoned with.")
        if any(call.prompt_tokens is None for call in calls):
            notes.append("Some calls do not tell their prompt; they are taken to grow from nothing.")
        if max_tokens is not None and any(call.total_tokens > max_tokens for call in calls):
            notes.append(f"Past calls longer than {max_tokens:,} tokens are taken to end there.")
    if out_of_step.number < in_step.number:
        notes.append("A few very long calls fill the pool for most of the time; they set the number of lanes.")
    return tuple(notes)
