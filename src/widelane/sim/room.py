"""Slots and pool together: what running calls hold, what is kept for later ones, and who finds room."""

from __future__ import annotations

from widelane.errors import UsageError
from widelane.sim.batch import DecodeBatch
from widelane.sim.config import EngineConfig, PoolPolicy, PrefixCache
from widelane.sim.live_call import LiveCall
from widelane.sim.policies import holding_of
from widelane.sim.pool import CachePool
from widelane.sim.prefix import BlockCache
from widelane.sim.slots import Slots


class Room:
    """The places of one engine.

    Attributes:
        reading: running calls whose prompts are being read, in the order in which they started, by their `order`.
        slots: places in the batch.
    """

    def __init__(self, config: EngineConfig, batch: DecodeBatch) -> None:
        self.reading: dict[int, LiveCall] = {}
        self.slots = Slots(config.slots, remembers=config.prefix_cache is PrefixCache.SLOTS)
        self._config = config
        self._batch = batch
        self._pool = CachePool(config)
        self._holding = holding_of(config, self._pool)
        self._blocks = None if config.prefix_cache is not PrefixCache.BLOCKS else _block_cache(config, self._pool)
        self._known = (-1, -1)
        self._decoding_units = 0

    @property
    def capacity(self) -> int | None:
        """Units in all, None when there is no bound."""
        return self._pool.capacity

    @property
    def longest_tokens(self) -> int:
        """Prompt and output of the longest sequence."""
        return self._pool.longest_tokens

    @property
    def used_units(self) -> int:
        """Units that running calls hold."""
        return self._used()

    @property
    def kept_units(self) -> int:
        """Units kept for later calls that running ones have not displaced."""
        idle, free = self._idle(), self.free_units
        return idle if free is None else max(0, min(idle, free))

    @property
    def free_units(self) -> int | None:
        """Units that running calls do not hold (below 0: more than there are); None when there is no bound."""
        return None if self._pool.capacity is None else self._pool.capacity - self._used()

    def enter(self, live: LiveCall) -> bool:
        """Whether the call finds room (there must be a slot); it then has it, and what it takes over is in `read`."""
        taken = 0 if self._blocks is None else self._blocks.enter(live)
        wanted, free = self._holding.to_start(live), self.free_units
        if wanted is not None and free is not None and wanted - live.shared_units > free:
            if self._blocks is not None:
                self._blocks.leave(live, taken, whole=False)
            return False
        live.read = max(taken, self.slots.take(live))
        self.reading[live.order] = live
        return True

    def leave(self, live: LiveCall, *, whole: bool, keep: bool) -> None:
        """The call gives up its slot and its room.

        Args:
            whole: it has written all.
            keep: what it had in the cache may be found by later calls.
        """
        kept = live.cached_at(self._batch.step) if keep else 0
        self.reading.pop(live.order, None)
        if live.member is not None:
            self._batch.leave(live)
        if self._blocks is not None:
            self._blocks.leave(live, kept, whole=whole)
        self.slots.give_back(live, kept)

    def read(self, live: LiveCall, tokens: int) -> None:
        """The next step reads so many tokens of this call's prompt: what others may share of it can be found now."""
        if self._blocks is not None and tokens > 0:
            self._blocks.publish(live, live.read + tokens)

    def readable(self, live: LiveCall, tokens: int, free_units: int) -> tuple[int, int]:
        """How many of these tokens fit into so many units, and the units that they take."""
        fitting = self._pool.tokens_within(live.read, tokens, free_units)
        return fitting, self._pool.units[live.read + fitting] - self._pool.units[live.read]

    def steps(self, steps: int) -> int:
        """How many of the next `steps` decode steps the pool holds, when the first of them fits."""
        free = self.free_units
        if free is None or steps <= 1 or self._config.policy is PoolPolicy.RESERVE:
            return steps
        # No sequence takes more for what it adds than a sequence of its own would.
        if len(self._batch) * self._pool.units[(steps - 1) * self._config.tokens_per_sequence] <= free:
            return steps
        low, high = 1, steps
        while low < high:
            middle = (low + high + 1) // 2
            grown = self._holding.decoding(self._batch, middle - 1) - self._decoding_units
            low, high = (middle, high) if grown <= free else (low, middle - 1)
        return low

    def shrink(self, ahead: int = 0) -> None:
        """Throw away what is kept for later calls and does not fit beside the running ones.

        Args:
            ahead: decode steps that they will have done by then.
        """
        idle = self._idle()
        free = self.free_units if idle else None
        if free is None:
            return
        if ahead and self._config.policy is not PoolPolicy.RESERVE:
            free -= self._holding.decoding(self._batch, ahead) - self._decoding_units
        if idle <= free:
            return
        if self._blocks is not None:
            self._blocks.shrink(max(0, free))
            return
        while self.slots.idle_tokens and self._idle() > free:
            self.slots.clear(min(self.slots.idle_tokens))

    def _idle(self) -> int:
        """Units that calls left behind, as if no running call had grown since they were last cut."""
        if self._blocks is not None:
            return self._blocks.idle_units
        if self._config.policy is not PoolPolicy.FAIL_ALL:
            return 0  # a slot keeps within its own part of the pool
        return sum(self._pool.units[tokens] for tokens in self.slots.idle_tokens.values())

    def _used(self) -> int:
        """Units in use while the next decode step runs."""
        batch = self._batch
        if self._known != (batch.step, batch.changes):
            self._known = (batch.step, batch.changes)
            self._decoding_units = 0 if self._pool.capacity is None else self._holding.decoding(batch, 0)
        used = self._decoding_units + sum([self._holding.reading(live) for live in self.reading.values()])
        if self._blocks is None:
            return used
        # Shared blocks are in each holder's count; what the cache knows counts them once.
        shared = sum([live.shared_units for live in batch.calls.values()])
        shared += sum([live.shared_units for live in self.reading.values()])
        return used - shared + self._blocks.used_units


def _block_cache(config: EngineConfig, pool: CachePool) -> BlockCache:
    """The prefix cache of this pool.

    What one more block of a long sequence takes is what can be shared: states and full windows do not grow with it.

    Raises:
        UsageError: its blocks are not the pool's.
    """
    block, longest = config.prefix_block_tokens, pool.longest_tokens
    units = pool.units[longest] - pool.units[longest - block]
    two = pool.units[longest] - pool.units[longest - 2 * block]
    if pool.capacity is not None and longest > 2 * block and (units == 0 or two != 2 * units):
        raise UsageError(
            f"A prefix cache in blocks of {block} tokens does not fit this pool: give prefix_block_tokens as many"
            " tokens as a block of the pool has, or a multiple of it."
        )
    return BlockCache(block, units)
