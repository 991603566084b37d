"""Does the output repeat itself without end? Looked at now and then, on the last few thousand characters.

Only an *exact* period counts, and only after far more copies than a person writes: a table, a matrix of zeros or a list
of similar lines is legitimate and differs from row to row or ends in time. A run of white space alone is caught sooner:
it is how output forced into JSON gets lost.
"""

from __future__ import annotations

_WINDOW_CHARS = 32_768
_CHECK_EVERY_CHARS = 1024
MIN_CHARS = 6144
"""Characters of pure repetition before it is called one: a 40 x 40 matrix of zeros has 3,200."""
MIN_EVENTS = 3000
"""The same for output that comes a character at a time."""
_MIN_COPIES = 12
_MAX_PERIOD_CHARS = 2048
_MIN_BLANK_CHARS = 1024
_MIN_BLANK_EVENTS = 512


class RepetitionDetector:
    """Watches one stream of output text."""

    __slots__ = ("_chars", "_events", "_tail", "_unchecked_chars")

    def __init__(self) -> None:
        self._tail = ""
        self._unchecked_chars = 0
        self._chars = 0
        self._events = 0

    def feed(self, text: str, events: int) -> str | None:
        """The repeated phrase, once `text` makes the repetition certain; else None.

        Args:
            text: what came since the last call, in `events` chunks.
        """
        self._chars += len(text)
        self._events += events
        self._unchecked_chars += max(len(text), 4 * events)  # output that comes in letters is looked at as often
        self._tail = (self._tail + text)[-_WINDOW_CHARS:]
        if self._unchecked_chars < _CHECK_EVERY_CHARS:
            return None
        self._unchecked_chars = 0
        return self._check()

    def _check(self) -> str | None:
        tail = self._tail
        chars_per_event = self._chars / self._events
        blank = len(tail) - len(tail.rstrip())
        if blank >= min(_MIN_BLANK_CHARS, _MIN_BLANK_EVENTS * chars_per_event):
            return tail[-min(blank, 16) :]
        needed = int(min(MIN_CHARS, MIN_EVENTS * chars_per_event))
        return repeated_phrase(tail, needed)


def repeated_phrase(text: str, needed_chars: int) -> str | None:
    """The phrase that the end of `text` consists of: at least `needed_chars` and 12 copies of it; None when none is.

    >>> repeated_phrase("x" + "ab" * 50, 100)
    'ab'
    """
    if len(text) < needed_chars:
        return None
    probe = text[-32:]
    end = len(text) - 1
    for _ in range(16):  # the nearest earlier copy of the last characters need not be one period away
        found = text.rfind(probe, 0, end)
        if found < 0:
            return None
        period = len(text) - len(probe) - found
        if period > _MAX_PERIOD_CHARS:
            return None
        span = max(needed_chars, _MIN_COPIES * period)
        if span <= len(text) and text[-span + period :] == text[-span:-period]:
            return text[-period:]
        end = found + len(probe) - 1
    return None
