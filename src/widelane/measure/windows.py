"""Where the steady windows of a level begin and end. Pure: fed with what happens, it says when a window is cut.

A level opens with a burst: all calls are sent at once and prefilled together. The opening calls are shortened to evenly
spread lengths, so that from then on calls end and begin one after another, as they do under a real load. The first
window begins when the burst is over: at the end of a call, once every call of the burst decodes, or as many have ended
as decode together (the others wait for a slot, and go on waiting). A window ends at the end of a call too, after as
many ends as decode together: one turn of the running batch, so that it holds its share of prefill.
"""

from __future__ import annotations

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
        steady_ns: when the first window began: calls sent before belong to the opening.
    """

    def __init__(self, concurrency: int, min_window_s: float) -> None:
        self._concurrency = concurrency
        self._min_window_ns = int(min_window_s * 1e9)
        self._opened = 0
        self._decoding = 0
        self._most_decoding = 0
        self._ends = 0
        self.start_ns: int | None = None
        self.steady_ns: int | None = None

    @property
    def turn(self) -> int:
        """Ends that make one turn of the running batch: the most calls decoding together so far."""
        return max(1, min(self._most_decoding, self._concurrency))

    def first_token(self, *, opening: bool) -> None:
        """A call got its first token; `opening` tells the first call of each of the level's workers."""
        self._opened += opening
        self._decoding += 1
        self._most_decoding = max(self._most_decoding, self._decoding)

    def ended(self, t_ns: int, *, opening: bool, had_token: bool) -> Window | None:
        """A call ended, well or not; the window that ends with it, if one does."""
        if had_token:
            self._decoding -= 1
        elif opening:
            self._opened += 1  # it failed: nobody waits for its first token any more
        self._ends += 1
        if self.start_ns is None:
            if self._opened >= self._concurrency or self._ends >= self.turn:
                self._begin(t_ns)
            return None
        if self._ends < self.turn or t_ns - self.start_ns < self._min_window_ns:
            return None
        window = Window(self.start_ns, t_ns, self._ends)
        self._begin(t_ns)
        return window

    def _begin(self, t_ns: int) -> None:
        self.start_ns = t_ns
        self._ends = 0
        if self.steady_ns is None:
            self.steady_ns = t_ns


def opening_lengths(concurrency: int, output_tokens: int) -> list[int]:
    """Output lengths of the opening calls: evenly spread over what a call in full swing has left to write.

    The middle of each of `concurrency` equal parts, at least 4 tokens so that each shows a decoding time.
    """
    return [max(4, round(output_tokens * (place + 0.5) / concurrency)) for place in range(concurrency)]
