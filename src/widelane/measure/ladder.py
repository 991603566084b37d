"""Which level comes next, and how long it may take. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from widelane.measure.decoding_cap import find_cap
from widelane.measure.knee import find_knee, points, still_rising, too_many_failed
from widelane.measure.options import SweepOptions
from widelane.measure.profile import Level

_TELLING_WIDTH = 8
REFINEMENTS = 2
"""In-between levels at most."""
# Doublings for which an adaptive sweep keeps time back, by what the last doubling brought at least.
_LOOK_AHEAD = ((1.4, 2), (0.0, 1))


def next_level(levels: Sequence[Level], options: SweepOptions) -> int | None:
    """The next width to measure, None when nothing more is worth it.

    `levels` are those measured so far, in any order.
    """
    done = {level.concurrency for level in levels}
    if options.levels is not None:
        return next((width for width in sorted(options.levels) if width not in done), None)
    doubling = sorted(width for width in done if _is_power_of_two(width))
    if not plateau_certain(levels, options.output_tokens):
        width = 2 * doubling[-1] if doubling else 1
        if width <= options.max_level:
            return width
        return options.max_level if options.max_level not in done else None
    if len(done) - len(doubling) >= REFINEMENTS:
        return None
    return _between(levels, done, options.output_tokens)


def plateau_certain(levels: Sequence[Level], output_tokens: int) -> bool:
    """Whether wider levels can bring nothing new.

    Slots: twice the calls that decode together were offered, and the throughput did not rise with it. Otherwise: the
    last two levels both brought nothing, and at least 8 calls were offered (small batches have kernels of their own,
    and a flat start may rise again). A level that failed, or that the client spoiled, ends the ladder as well.
    """
    ordered = sorted(levels, key=lambda level: level.concurrency)
    if not ordered:
        return False
    last = ordered[-1]
    if last.client.spoiled or last.output_tok_s.number is None or too_many_failed(last):
        return True
    known = points(ordered)
    cap = find_cap(ordered, output_tokens)
    if cap is not None:
        return cap.offered >= 2 * cap.slots and not still_rising(known)
    return (
        len(known) >= 3
        and known[-1].concurrency >= _TELLING_WIDTH
        and not still_rising(known)
        and not still_rising(known[:-1])
    )


def planned(levels: Sequence[Level], width: int, options: SweepOptions) -> list[int]:
    """The levels that are likely still to come, `width` first."""
    if options.levels is not None:
        done = {level.concurrency for level in levels}
        return [level for level in sorted(options.levels) if level not in done]
    known = points(levels)
    gain = known[-1].value / known[-2].value if len(known) > 1 else 2.0
    doublings = next(count for least, count in _LOOK_AHEAD if gain >= least)
    while width * 2**doublings < _TELLING_WIDTH:
        doublings += 1
    ahead = [width * 2**step for step in range(doublings + 1)]
    return [level for level in ahead if level <= options.max_level] or [width]


def level_seconds(left_s: float, width: int, plan: Sequence[int]) -> float:
    """How long a level may take of the time that is left.

    In proportion to 1 + the square root of the width: a wide level's calls take longer, for they share the server, but
    it also has more of them to learn from. One duration for all would waste time on narrow levels and starve wide ones.
    """
    return left_s * (1 + math.sqrt(width)) / sum(1 + math.sqrt(level) for level in plan)


def _between(levels: Sequence[Level], done: set[int], output_tokens: int) -> int | None:
    """A width near the knee that would place it better: the slots themselves, else the middle below the knee."""
    cap = find_cap(levels, output_tokens)
    if cap is not None and cap.slots not in done:
        return cap.slots
    knee = find_knee(levels, cap.slots if cap else None)
    if knee is None:
        return None
    at = int(knee.concurrency.number or 1)
    below = max((width for width in done if width < at), default=at)
    middle = (below + at) // 2
    return middle if middle not in done and at - below > max(2, at // 4) else None


def _is_power_of_two(width: int) -> bool:
    return width & (width - 1) == 0
