"""How many requests a pool holds at once: at a typical footprint, and were each as long as the longest allowed.

`max_tokens` is a fuse, not a reservation: no engine here sets memory aside for tokens that have not come.
"""

from __future__ import annotations

from dataclasses import dataclass

from widelane.figures import Figure, Origin
from widelane.plan.pool.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFit:
    """Requests that the pool holds at the same time.

    Attributes:
        typical, worst_case: requests of `typical_tokens`, of `max_tokens`.
        typical_need, worst_need: what one of them takes, in the pool's unit.
    """

    typical: Figure
    worst_case: Figure
    typical_tokens: int
    max_tokens: int
    typical_need: Figure
    worst_need: Figure


def sequences_that_fit(pool: Pool, *, typical_tokens: int, max_tokens: int) -> PoolFit:
    """Requests that fit at the typical footprint and at the worst case, with what limits them."""
    return PoolFit(
        typical=_fitting(pool, typical_tokens),
        worst_case=_fitting(pool, max_tokens),
        typical_tokens=typical_tokens,
        max_tokens=max_tokens,
        typical_need=_need(pool, typical_tokens),
        worst_need=_need(pool, max_tokens),
    )


def _need(pool: Pool, tokens: int) -> Figure:
    return Figure(pool.need(tokens), pool.unit, Origin.PREDICTED, reason=f"one request of {tokens:,} tokens")


def _fitting(pool: Pool, tokens: int) -> Figure:
    return Figure(pool.holds(tokens), "requests", Origin.PREDICTED, reason=_limit(pool, tokens))


def _limit(pool: Pool, tokens: int) -> str:
    """Why no more fit."""
    if tokens > pool.longest_tokens:
        return f"the server takes at most {pool.longest_tokens:,} tokens a request"
    need = pool.need(tokens)
    by_capacity = pool.capacity // need
    if pool.max_sequences is not None and pool.max_sequences < by_capacity:
        limit = "slots" if pool.engine in ("llama.cpp", "ollama") else "recurrent states"
        return f"limited by the {limit}: {pool.max_sequences}; the pool alone would hold {by_capacity}"
    return f"{pool.capacity:,} {pool.unit}, {need:,} a request"
