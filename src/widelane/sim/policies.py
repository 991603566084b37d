"""How much of the pool a call holds, and what it must find free to start: one class a policy.

recompute   decoding: its length with the tokens of the next step; reading: its whole prompt from the start
            (vLLM's `scheduler_reserve_full_isl`). It starts when its prompt fits.
fail-all    decoding: the same; reading: what has been read. It starts whatever is free.
reserve     all that it will ever take. It starts when that fits.
"""

from __future__ import annotations

from typing import Protocol

from widelane.sim.batch import DecodeBatch
from widelane.sim.config import EngineConfig, PoolPolicy
from widelane.sim.live_call import LiveCall
from widelane.sim.pool import CachePool


class Holding(Protocol):
    """What calls hold under one policy, shared blocks included."""

    def decoding(self, batch: DecodeBatch, ahead: int) -> int:
        """Units that all decoding calls hold in the step after `ahead` further ones."""
        ...

    def reading(self, live: LiveCall) -> int:
        """Units that a call holds while its prompt is read."""
        ...

    def to_start(self, live: LiveCall) -> int | None:
        """Units that must be there for it to start; None: it starts whatever is free."""
        ...


class Growing:
    """Decoding calls take room as they grow."""

    def __init__(self, pool: CachePool, tokens_per_sequence: int) -> None:
        self._pool = pool
        self._next_tokens = tokens_per_sequence

    def decoding(self, batch: DecodeBatch, ahead: int) -> int:
        units, step = self._pool.units, batch.step + ahead
        if self._next_tokens > 1:
            return sum([units[live.cached_at(step) + self._next_tokens] for live in batch.calls.values()])
        return sum([units[live.base + step + 1] for live in batch.calls.values()])


class Recompute(Growing):
    """vLLM and SGLang."""

    def reading(self, live: LiveCall) -> int:
        return self._pool.units[live.target]

    def to_start(self, live: LiveCall) -> int:
        return self._pool.units[live.target]


class FailAll(Growing):
    """llama.cpp's shared pool."""

    def reading(self, live: LiveCall) -> int:
        return self._pool.units[live.read]

    def to_start(self, live: LiveCall) -> None:
        return None


class Reserve:
    """llama.cpp with a split context."""

    def __init__(self, pool: CachePool) -> None:
        self._pool = pool

    def decoding(self, batch: DecodeBatch, ahead: int) -> int:
        return sum([self.to_start(live) for live in batch.calls.values()])

    def reading(self, live: LiveCall) -> int:
        return self.to_start(live)

    def to_start(self, live: LiveCall) -> int:
        return self._pool.units[live.call.prompt_tokens + live.limit]


def holding_of(config: EngineConfig, pool: CachePool) -> Holding:
    """The class of this configuration's policy."""
    if config.policy is PoolPolicy.RESERVE:
        return Reserve(pool)
    if config.policy is PoolPolicy.FAIL_ALL:
        return FailAll(pool, config.tokens_per_sequence)
    return Recompute(pool, config.tokens_per_sequence)
