"""The places of the running batch, and what llama.cpp's slots remember of their last call.

A slot of llama.cpp keeps the cache of its last call; a new call takes the free slot that shares the longest beginning
with its prompt when that is more than a tenth of it (`--slot-prompt-similarity`), else the one free for the longest
time. Where all slots share one pool, what idle slots keep is thrown away when running calls need the cells, slot by
slot. (tools/server/server-context.cpp: `get_available_slot`, `try_clear_idle_slots`.)
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from widelane.sim.call import Segment
from widelane.sim.live_call import LiveCall

SIMILARITY = 0.1
"""`--slot-prompt-similarity`: the share of the prompt that a slot must have already to be chosen for it."""


@dataclass(slots=True)
class _Memory:
    """What a slot keeps.

    Attributes:
        segments, tokens: pieces of its last call, and how many tokens of it are there.
        left_at: when that call left, in calls; 0 before the first.
    """

    segments: tuple[Segment, ...] = ()
    tokens: int = 0
    left_at: int = 0


class Slots:
    """Places by number.

    Attributes:
        remembers: whether a slot keeps its last call's cache.
        idle_tokens: tokens kept by each idle slot that keeps any, by slot.
    """

    def __init__(self, count: int, *, remembers: bool) -> None:
        self.remembers = remembers
        self.idle_tokens: dict[int, int] = {}
        self._free = list(range(count))
        self._memories = [_Memory() for _ in range(count)] if remembers else []
        self._leaving = 0

    @property
    def free(self) -> int:
        """Places that nobody has."""
        return len(self._free)

    def take(self, live: LiveCall) -> int:
        """Give the call a place (there must be one); the tokens of its prompt that are there already."""
        if not self.remembers:
            live.slot = heapq.heappop(self._free)
            return 0
        common = {slot: self._common(slot, live) for slot in self._free}
        most = max(common.values())
        if most > SIMILARITY * live.call.prompt_tokens:
            slot = next(slot for slot, tokens in common.items() if tokens == most)
        else:
            slot = min(common, key=lambda free: (self._memories[free].left_at, free))
        self._free.remove(slot)
        live.slot = slot
        self.idle_tokens.pop(slot, None)
        return min(common[slot], live.target - 1)

    def give_back(self, live: LiveCall, tokens: int) -> None:
        """The call has left its place, with so many tokens in the cache (0: nothing is kept)."""
        heapq.heappush(self._free, live.slot)
        if not self.remembers:
            return
        self._leaving += 1
        call = live.call
        segments = call.prefix
        if call.output_key is not None and call.prefix_tokens == call.prompt_tokens and live.written:
            segments = (*segments, (call.output_key, live.written))
        self._memories[live.slot] = _Memory(segments, tokens, self._leaving)
        if tokens:
            self.idle_tokens[live.slot] = tokens

    def clear(self, slot: int) -> None:
        """Throw away what an idle slot keeps."""
        del self.idle_tokens[slot]
        self._memories[slot].segments = ()
        self._memories[slot].tokens = 0

    def _common(self, slot: int, live: LiveCall) -> int:
        """Tokens at the beginning of the prompt that the slot has."""
        memory, tokens = self._memories[slot], 0
        for kept, wanted in zip(memory.segments, live.call.prefix, strict=False):
            if kept != wanted:
                break
            tokens += wanted[1]
        return min(tokens, memory.tokens)
