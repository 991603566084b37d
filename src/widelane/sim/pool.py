"""The pool in the engine: units of a length, looked up rather than computed, and the longest sequence it can hold."""

from __future__ import annotations

from widelane.errors import UsageError
from widelane.sim.config import EngineConfig, PoolUnits


class UnitTable(dict[int, int]):
    """Units of a sequence by its tokens, at most those of the longest: computed once a length, as steps ask for many.

    0 for no tokens, and without a pool.
    """

    def __init__(self, pool: PoolUnits | None, longest_tokens: int) -> None:
        super().__init__()
        self._pool = pool
        self._longest_tokens = longest_tokens

    def __missing__(self, tokens: int) -> int:
        held = min(tokens, self._longest_tokens)
        self[tokens] = units = 0 if self._pool is None or held <= 0 else self._pool.need(held)
        return units


class CachePool:
    """The room for sequences.

    Attributes:
        capacity: units in all, None when there is no bound.
        longest_tokens: prompt and output of the longest sequence that this server takes and the pool holds.
        units: units of a sequence by its tokens.
    """

    __slots__ = ("capacity", "longest_tokens", "units")

    def __init__(self, config: EngineConfig) -> None:
        self.units = UnitTable(config.pool, config.longest_tokens)
        self.capacity = None if config.pool is None else config.pool.capacity
        self.longest_tokens = config.longest_tokens
        if self.capacity is not None:
            self.longest_tokens = self.tokens_within(0, config.longest_tokens, self.capacity)
        if self.longest_tokens < 2:
            raise UsageError(
                f"A pool of {self.capacity} units does not hold a single sequence of two tokens: give a larger one."
            )
        self.units = UnitTable(config.pool, self.longest_tokens)

    def tokens_within(self, held: int, more: int, free_units: int) -> int:
        """How many of `more` tokens a sequence of `held` can be given when so many units are free."""
        limit = self.units[held] + free_units
        if self.units[held + more] <= limit:
            return more
        low, high = 0, more - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.units[held + middle] <= limit else (low, middle - 1)
        return low
