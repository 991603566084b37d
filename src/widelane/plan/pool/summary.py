"""A pool as the plan's document tells it."""

from __future__ import annotations

from widelane.figures import Figure, Origin, unknown
from widelane.plan.pool.pool import Pool
from widelane.plan.report import KvPoolPlan


def pool_summary(pool: Pool, *, origin: Origin = Origin.PREDICTED) -> KvPoolPlan:
    """The pool's figures.

    Args:
        origin: PREDICTED for a planned pool, READ or INFERRED for one taken from a start log.
    """

    def figure(value: int, unit: str) -> Figure:
        return Figure(value, unit, origin)

    none = f"{pool.engine} keeps tokens one by one, not in blocks"
    return KvPoolPlan(
        tokens=figure(pool.tokens, "tokens"),
        bytes=figure(pool.bytes, "bytes"),
        block_tokens=unknown("tokens", none) if pool.block_tokens is None else figure(pool.block_tokens, "tokens"),
        blocks=unknown("blocks", none) if pool.blocks is None else figure(pool.blocks, "blocks"),
        log_line_tokens=figure(pool.log_line_tokens, "tokens"),
        meaning=pool.meaning,
    )
