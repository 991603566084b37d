"""What a run's spans tell: when one call ran alone, the longest chain, phases, how busy the lanes were. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from widelane.records import Outcome, Span

_NS = 1e9


class Busy(NamedTuple):
    """How long so many calls were in flight, in seconds.

    Attributes:
        alone_s: exactly one: what no width shortens (Amdahl's serial part).
        shared_s: two or more.
        lane_s: over all lanes together, e.g. 3 calls for 2 s are 6.
        most: most calls in flight at one time.
    """

    alone_s: float
    shared_s: float
    lane_s: float
    most: int


def busy(spans: Sequence[Span]) -> Busy:
    """How long how many calls were in flight."""
    changes = sorted(change for start_ns, end_ns in _stretches(spans) for change in ((end_ns, -1), (start_ns, 1)))
    alone_ns = shared_ns = lane_ns = flying = most = 0
    for (at_ns, step), (next_ns, _) in itertools.pairwise([*changes, (changes[-1][0], 0)] if changes else []):
        flying += step
        most = max(most, flying)
        took_ns = next_ns - at_ns
        lane_ns += flying * took_ns
        alone_ns += took_ns if flying == 1 else 0
        shared_ns += took_ns if flying > 1 else 0
    return Busy(alone_ns / _NS, shared_ns / _NS, lane_ns / _NS, most)


def phase_seconds(spans: Sequence[Span]) -> dict[str, float]:
    """For each role, in order of first start, how long at least one of its calls was in flight."""
    started = [span for span in spans if span.started_ns is not None]
    roles = dict.fromkeys(span.role for span in sorted(started, key=lambda span: (span.started_ns or 0, span.key)))
    return {role: _covered_ns(_stretches(span for span in started if span.role == role)) / _NS for role in roles}


def critical_path(spans: Sequence[Span]) -> list[Span]:
    """The chain of causes that ends with the call that ended last, in order of time.

    Calls that were cancelled or failed end no chain, unless nothing else was called.
    """
    return _chain(spans, through_lanes=False)


def lane_path(spans: Sequence[Span]) -> list[Span]:
    """The same, where a call that waited for a lane follows the call that made room for it: what set the wall clock."""
    return _chain(spans, through_lanes=True)


def output_tokens(spans: Iterable[Span]) -> int:
    """Tokens written in all of them."""
    return sum(span.output_tokens or 0 for span in spans)


def _chain(spans: Sequence[Span], *, through_lanes: bool) -> list[Span]:
    by_key = {span.key: span for span in spans}
    ended = sorted(spans, key=lambda span: (span.ended_ns, span.key))
    whole = [span for span in ended if span.outcome is Outcome.OK]
    last = next(reversed(whole or ended), None)
    chain: dict[str, Span] = {}
    while last is not None and last.key not in chain:
        chain[last.key] = last
        before = _made_room(last, whole) if through_lanes else None
        last = before or (by_key.get(last.parent) if last.parent is not None else None)
    return [*chain.values()][::-1]


def _made_room(span: Span, ended: Sequence[Span]) -> Span | None:
    """The call whose end let this one start; None when it did not wait for a lane."""
    if span.started_ns is None or span.started_ns <= span.queued_ns:
        return None
    earlier = [one for one in ended if span.queued_ns < one.ended_ns <= span.started_ns and one is not span]
    return earlier[-1] if earlier else None


def _stretches(spans: Iterable[Span]) -> list[tuple[int, int]]:
    return [(span.started_ns, span.ended_ns) for span in spans if span.started_ns is not None]


def _covered_ns(stretches: Sequence[tuple[int, int]]) -> int:
    covered = until = 0
    for start, end in sorted(stretches):
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return covered
