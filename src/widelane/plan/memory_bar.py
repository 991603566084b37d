"""The stacked bar of a device's memory: what it goes to from the bottom up, adding up to all there is."""

from __future__ import annotations

from widelane.figures import Figure, Origin
from widelane.plan.memory import MemoryBudget, use_figure
from widelane.plan.pool.pool import Pool
from widelane.plan.report import MemoryPart


def memory_bar(budget: MemoryBudget, pool: Pool) -> tuple[MemoryPart, ...]:
    """Weights, working memory, recurrent state, KV pool, what stays free, reserve.

    Where model and pool need more than there is, the parts exceed the memory by `missing_bytes`.
    """
    parts = [MemoryPart(name=use.name, bytes=use_figure(use)) for use in budget.uses]
    if pool.state_bytes:
        parts.append(_part("recurrent state", pool.state_bytes, "set aside for all slots, whether busy or not"))
    inside = "" if pool.state_bytes else ", recurrent states included where the model has them"
    parts.append(_part("KV pool", pool.bytes - pool.state_bytes, f"{pool.capacity:,} {pool.unit}{inside}"))
    left = budget.pool_bytes - pool.bytes
    if left > 0:
        parts.append(_part("free", left, "left over: no engine setting here makes use of it"))
    parts.append(MemoryPart(name=budget.reserve.name, bytes=use_figure(budget.reserve)))
    return tuple(parts)


def missing_bytes(budget: MemoryBudget, pool: Pool) -> int:
    """Bytes that model and pool need beyond what there is, 0 when they fit."""
    return budget.missing_bytes + max(0, pool.bytes - budget.pool_bytes)


def _part(name: str, size: int, reason: str) -> MemoryPart:
    return MemoryPart(name=name, bytes=Figure(size, "bytes", Origin.PREDICTED, reason=reason))
