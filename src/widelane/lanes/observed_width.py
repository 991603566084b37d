"""What the server really decodes together, told from the spans alone. Pure.

A server with too few slots takes every request, sends headers at once, and lets most of them wait: nothing fails, and
throughput stays flat. It shows in the first tokens: they come in steps of the service time.

Method: a call is *in service* from `first token - p` to its end, where `p` is the shortest time to a first token seen
(the prefill of a call that did not wait). The effective width is the largest number of calls in service together,
counting only levels held for a twentieth of the time, so that two calls that merely touch do not add a slot.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from widelane.records import Outcome, Span

HELD_SHARE = 0.05
QUEUED_SHARE = 0.5
"""A call waited in the server when its first token came later than the quickest by half a typical service time."""
MIN_CALLS = 4


@dataclass(frozen=True, slots=True)
class ObservedWidth:
    """Width offered and width served.

    Attributes:
        offered: most calls in flight together.
        effective: most calls in service together.
        queued: calls that waited inside the server.
    """

    offered: int
    effective: int
    queued: int

    @property
    def server_queues(self) -> bool:
        """Whether the server made calls wait that were offered to it together."""
        return self.queued >= 2 and self.effective < self.offered


def observed_width(spans: Sequence[Span]) -> ObservedWidth | None:
    """Widths over the calls that ended well; None below four of them."""
    calls = [
        (span.started_ns, span.first_token_ns, span.ended_ns)
        for span in spans
        if span.outcome is Outcome.OK and span.attempts == 1 and span.started_ns is not None
        and span.first_token_ns is not None
    ]  # fmt: skip
    if len(calls) < MIN_CALLS:
        return None
    prefill_ns = min(first - started for started, first, _ in calls)
    service = [(max(started, first - prefill_ns), ended) for started, first, ended in calls]
    service_ns = statistics.median(ended - begun for begun, ended in service)
    waits_ns = [begun - started for (begun, _), (started, _, _) in zip(service, calls, strict=True)]
    queued = sum(wait_ns > QUEUED_SHARE * service_ns for wait_ns in waits_ns)
    return ObservedWidth(
        offered=_held_together([(started, ended) for started, _, ended in calls]),
        effective=_held_together(service),
        queued=queued,
    )


def _held_together(intervals: Sequence[tuple[int, int]]) -> int:
    """Largest level of overlap that was reached for a twentieth of the busy time."""
    # At one instant ends come before starts: a slot is handed over, not shared.
    edges = sorted([(start, 1) for start, _ in intervals] + [(end, -1) for _, end in intervals])
    time_at: dict[int, int] = {}
    level = 0
    before_ns = edges[0][0]
    for t_ns, step in edges:
        time_at[level] = time_at.get(level, 0) + t_ns - before_ns
        before_ns = t_ns
        level += step
    busy_ns = sum(spent for depth, spent in time_at.items() if depth > 0)
    held_ns = 0
    for depth in sorted(time_at, reverse=True):
        held_ns += time_at[depth]
        if depth > 0 and held_ns >= HELD_SHARE * busy_ns:
            return depth
    return 1
