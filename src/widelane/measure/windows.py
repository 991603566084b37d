"""Where the steady windows of a level begin and end. Pure: fed with what happens, it says when a window is cut.

A level opens with a burst: all calls are sent at once and prefilled together. The opening calls that get a slot at once
are shortened to evenly spread lengths, so that from then on calls end and begin one after another, as they do under a
real load; those that have to wait are whole, like everything that waits in the steady state.

The first window begins when the burst is over: at the end of a call, once every call of the burst decodes, or as many
have ended as decode together (the others wait for a slot, and go on waiting). A window ends at the end of a call too,
after as many ends as one turn of the running batch has (a part of a turn where the batch is wide: its calls end
evenly), so that it holds its share of prefill.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Window(NamedTuple):
    """A steady window, (start, end] in nanoseconds."""

    start_ns: int
    end_ns: int
    ends: int


class Windows:
    """Cuts a level's time.

    Attributes:
        start_ns: when the running window began; None while the opening lasts.
        steady_ns: calls sent from then on wait as in the steady state: the windows have begun, and no shortened call is
            before them in a queue.
    """

    def __init__(self, concurrency: int, min_window_s: float, shortened: int | None = None) -> None:
        """Args:
        shortened: opening calls that are shortened, all of them when None.
        """
        self._concurrency = concurrency
        self._min_window_ns = int(min_window_s * 1e9)
        self._opened = 0
        self._shortened_waiting = concurrency if shortened is None else shortened
        self._decoding = 0
        self._most_decoding = 0
        self._ends = 0
        self._in_one_piece = False
        self.start_ns: int | None = None
        self.steady_ns: int | None = None

    @property
    def turn(self) -> int:
        """Ends that make one turn of the running batch: the most calls decoding together so far.

        Replies that come in one piece do not show how many that are: then it is all that are in flight.
        """
        if self._in_one_piece:
            return self._concurrency
        return max(1, min(self._most_decoding, self._concurrency))

    @property
    def ends_needed(self) -> int:
        """Ends that make a window: a turn, half a turn from 8 calls on, a quarter from 16 on."""
        return math.ceil(self.turn / (4 if self.turn >= 16 else 2 if self.turn >= 8 else 1))

    def first_token(self, *, opening: bool, shortened: bool = False) -> None:
        """A call got its first token; `opening` tells the first call of each of the level's workers."""
        self._opened += opening
        self._shortened_waiting -= shortened
        self._decoding += 1
        self._most_decoding = max(self._most_decoding, self._decoding)

    def ended(
        self, t_ns: int, *, opening: bool, had_token: bool, shortened: bool = False, in_one_piece: bool = False
    ) -> Window | None:
        """A call ended, well or not; the window that ends with it, if one does.

        `had_token` tells whether `first_token` was called for it, `in_one_piece` whether its reply came all at once.
        """
        self._in_one_piece = self._in_one_piece or in_one_piece
        if had_token:
            self._decoding -= 1
        else:  # it failed: nobody waits for its first token any more
            self._opened += opening
            self._shortened_waiting -= shortened
        self._ends += 1
        if self.start_ns is None:
            if self._opened >= self._concurrency or self._ends >= self.turn:
                self._begin(t_ns)
            return None
        self._note_steady(t_ns)
        if self._ends < self.ends_needed or t_ns - self.start_ns < self._min_window_ns:
            return None
        window = Window(self.start_ns, t_ns, self._ends)
        self._begin(t_ns)
        return window

    def _begin(self, t_ns: int) -> None:
        self.start_ns = t_ns
        self._ends = 0
        self._note_steady(t_ns)

    def _note_steady(self, t_ns: int) -> None:
        if self.steady_ns is None and self._shortened_waiting <= 0:
            self.steady_ns = t_ns


def opening_lengths(count: int, output_tokens: int) -> list[int]:
    """Output lengths of the shortened opening calls: evenly spread over what a call in full swing has left to write.

    The middle of each of `count` equal parts, at least 4 tokens so that each shows a decoding time.
    """
    return [max(4, round(output_tokens * (place + 0.5) / count)) for place in range(count)]
