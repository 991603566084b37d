"""The prefix cache of vLLM and SGLang: full blocks found by all that is before them, shared, kept while there is room.

Prompts are given in pieces with keys (`SimCall.prefix`). The cache is a tree of pieces: a path from the root is the
beginning of prompts. A piece in use by a running call stays; others are dropped from their ends, those unused for the
longest time first. Only full blocks count, and at least one token of a prompt is always read.

What a call computes can be found as soon as the step that computes it is scheduled, as in vLLM. Two calls that compute
the same at the same time are counted once here; vLLM keeps both copies until one ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from widelane.sim.call import Segment
from widelane.sim.live_call import LiveCall

_TO_THE_END = 1 << 60
"""Length of a call's own piece, which nothing follows."""


@dataclass(frozen=True, slots=True)
class _Own:
    """Key of what only one call has, by which it finds its own cache again after a preemption."""

    order: int


@dataclass(slots=True, eq=False)
class _Piece:
    """A piece that is kept, or part of it.

    Attributes:
        segment: its key and length.
        start: tokens before it.
        kept: tokens of it, from its beginning.
        users: running calls that hold it.
        left_at: when the last of them left, by the cache's own count.
    """

    segment: Segment
    start: int
    parent: _Piece | None
    kept: int = 0
    users: int = 0
    left_at: int = 0
    children: dict[Segment, _Piece] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.start + self.kept


class BlockCache:
    """Blocks that calls share.

    Attributes:
        used_units: pool units of pieces that running calls hold, each counted once.
        idle_units: units of the others, to be had when room is needed.
    """

    def __init__(self, block_tokens: int, units_per_block: int) -> None:
        self.used_units = 0
        self.idle_units = 0
        self._block_tokens = block_tokens
        self._units_per_block = units_per_block
        self._root = _Piece(("", 0), 0, None)
        self._paths: dict[int, list[_Piece]] = {}
        self._idle: list[tuple[int, _Piece]] = []
        self._clock = count(1)

    def enter(self, live: LiveCall) -> int:
        """Tokens that a starting call takes over; it holds them until `leave`."""
        path: list[_Piece] = []
        node, found = self._root, 0
        for segment in (*live.call.prefix, (_Own(live.order), _TO_THE_END)):
            child = node.children.get(segment)
            if child is None:
                break
            path.append(child)
            found = child.end
            if child.kept < segment[1]:
                break
            node = child
        taken = min(found, live.target - 1) // self._block_tokens * self._block_tokens
        while path and path[-1].start >= taken:
            path.pop()
        for piece in path:
            self._hold(piece)
        self._paths[live.order] = path
        live.shared_units = self._units(0, taken)
        return taken

    def publish(self, live: LiveCall, tokens: int) -> None:
        """So many tokens of this call are in the cache: what its prefix has of them may be shared now."""
        self._extend(live, live.call.prefix, tokens)

    def leave(self, live: LiveCall, tokens: int, *, whole: bool) -> None:
        """The call runs no more and leaves so many tokens behind, which are kept while there is room.

        Args:
            whole: it has written all; its output can then be found by the call's `output_key`.
        """
        call = live.call
        continued = whole and call.output_key is not None and call.prefix_tokens == call.prompt_tokens
        last: Segment = (call.output_key, live.written) if continued else (_Own(live.order), _TO_THE_END)
        if continued or self._units_per_block:
            self._extend(live, (*call.prefix, last), tokens)
        live.shared_units = 0
        for piece in reversed(self._paths.pop(live.order)):
            self._let_go(piece)

    def shrink(self, units: int) -> None:
        """Keep at most so many idle units."""
        while self.idle_units > units and self._idle:
            left_at, piece = heapq.heappop(self._idle)
            if not piece.users and piece.left_at == left_at:
                self._drop_end(piece, self.idle_units - units)

    def _extend(self, live: LiveCall, segments: Sequence[Segment], tokens: int) -> None:
        """Keep what these segments have of the call's first `tokens` tokens; its path grows by it."""
        path = self._paths[live.order]
        for index in range(max(0, len(path) - 1), len(segments)):
            parent = path[index - 1] if index else self._root
            start = parent.start + parent.segment[1]
            part = min(segments[index][1], tokens - start)
            if part <= 0:
                break
            if index == len(path):
                path.append(self._child(parent, segments[index], start))
            piece = path[index]
            if part > piece.kept:
                self.used_units += self._units(piece.end, start + part)
                piece.kept = part
            if part < segments[index][1]:
                break
        if path:
            live.shared_units = max(live.shared_units, self._units(0, min(path[-1].end, tokens)))

    def _child(self, parent: _Piece, segment: Segment, start: int) -> _Piece:
        """The piece after `parent`, held by one call more."""
        child = parent.children.get(segment)
        if child is None:
            child = parent.children[segment] = _Piece(segment, start, parent)
        self._hold(child)
        return child

    def _hold(self, piece: _Piece) -> None:
        if not piece.users:
            units = self._units(piece.start, piece.end)
            self.used_units += units
            self.idle_units -= units
        piece.users += 1

    def _let_go(self, piece: _Piece) -> None:
        piece.users -= 1
        if piece.users:
            return
        units = self._units(piece.start, piece.end)
        self.used_units -= units
        self.idle_units += units
        piece.left_at = next(self._clock)
        if units:
            heapq.heappush(self._idle, (piece.left_at, piece))
        elif self._units_per_block and not piece.children:
            self._remove(piece)

    def _drop_end(self, piece: _Piece, excess_units: int) -> None:
        """Drop blocks of an idle piece, the last first, as many as needed or all of it."""
        blocks = -(-excess_units // self._units_per_block)
        first, last = piece.start // self._block_tokens, piece.end // self._block_tokens
        if last - first <= blocks:
            self.idle_units -= self._units(piece.start, piece.end)
            self._remove(piece)
            return
        self.idle_units -= blocks * self._units_per_block
        piece.kept = (last - blocks) * self._block_tokens - piece.start
        heapq.heappush(self._idle, (piece.left_at, piece))

    def _remove(self, piece: _Piece) -> None:
        piece.kept = 0
        if piece.parent is not None:
            piece.parent.children.pop(piece.segment, None)

    def _units(self, start: int, end: int) -> int:
        """Units of the full blocks that end within these tokens."""
        return (end // self._block_tokens - start // self._block_tokens) * self._units_per_block
