"""Spans to the model of the lane timeline: rows, bars and the tokens/s strip, in seconds since the first call.

Pure. The page draws what stands here and computes nothing of its own, so that every bar can be traced to a span.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from widelane.records import Outcome, Span

_NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One call. Times in seconds since the timeline's start.

    Attributes:
        row: row of the timeline, from 0 at the top.
        queued_s: offered. started_s: sent, None when it never was.
        served_s: when a slot of the server was free for it; equals `started_s` where nothing says that it waited.
        first_s: first token; None when none came. ended_s: over.
        parent: index of the bar that caused this one, None at the root.
    """

    key: str
    row: int
    role: str
    queued_s: float
    started_s: float | None
    served_s: float | None
    first_s: float | None
    ended_s: float
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    attempts: int
    outcome: Outcome
    error: str | None
    detail: str | None
    parent: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """Output tokens written by all lanes together, cumulated.

    Between two times the count rises evenly, so that the mean rate of any stretch is one difference over another,
    at every zoom. A call's tokens count evenly from its first token to its end.

    Attributes:
        time_s, tokens: equally long, both rising.
    """

    time_s: Sequence[float]
    tokens: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What one drawing of the lanes shows.

    Attributes:
        rows: names of the rows (the lanes' numbers, from 1).
        bars: by start, then row.
        roles: in order of appearance; the page gives each a colour.
        ceiling_tok_s: best measured throughput that the strip is held against, None when there is none.
        slots: places the server was taken to have for `served_s`, None when it was not known.
        critical: indices of the bars on the critical path, in order of time; empty when no call has a parent.
    """

    label: str
    rows: Sequence[str]
    bars: Sequence[Bar]
    roles: Sequence[str]
    duration_s: float
    strip: Strip
    ceiling_tok_s: float | None
    slots: int | None
    critical: Sequence[int]


def build(
    spans: Sequence[Span], *, label: str = "", ceiling_tok_s: float | None = None, slots: int | None = None
) -> Timeline:
    """The timeline of these calls.

    Args:
        slots: sequences the server decodes together. With it the wait for a slot is told apart from prefill, by the
            rule of a first-come server: the n-th call is served when one of the earlier ones has left.
    """
    ordered = sorted(spans, key=lambda span: (span.queued_ns, span.lane, span.key))
    origin_ns = ordered[0].queued_ns if ordered else 0
    lanes = sorted({span.lane for span in ordered})
    row_of = {lane: row for row, lane in enumerate(lanes)}
    index_of = {span.key: index for index, span in enumerate(ordered)}
    served = _served_ns(ordered, slots)
    bars = [_bar(span, row_of[span.lane], origin_ns, served[span.key], index_of) for span in ordered]
    return Timeline(
        label=label,
        rows=[str(lane + 1) for lane in lanes],
        bars=bars,
        roles=list(dict.fromkeys(bar.role for bar in bars)),
        duration_s=max((bar.ended_s for bar in bars), default=0.0),
        strip=strip(bars),
        ceiling_tok_s=ceiling_tok_s,
        slots=slots,
        critical=critical_path(bars),
    )


def _bar(span: Span, row: int, origin_ns: int, served_ns: int | None, index_of: Mapping[str, int]) -> Bar:
    parent = index_of.get(span.parent) if span.parent is not None else None
    return Bar(
        key=span.key,
        row=row,
        role=span.role,
        queued_s=(span.queued_ns - origin_ns) / _NS,
        started_s=_since(span.started_ns, origin_ns),
        served_s=_since(served_ns, origin_ns),
        first_s=_since(span.first_token_ns, origin_ns),
        ended_s=(span.ended_ns - origin_ns) / _NS,
        prompt_tokens=span.prompt_tokens,
        cached_tokens=span.cached_tokens,
        output_tokens=span.output_tokens,
        attempts=span.attempts,
        outcome=span.outcome,
        error=span.error,
        detail=span.detail,
        parent=parent,
    )


def _since(t_ns: int | None, origin_ns: int) -> float | None:
    return None if t_ns is None else (t_ns - origin_ns) / _NS


def _served_ns(spans: Sequence[Span], slots: int | None) -> dict[str, int | None]:
    """When each call got its slot: the time it was sent, or the end of the call that made room for it.

    Calls are served in the order of their first tokens, which is what was seen. A call without one is served last
    of those sent before it, and may never have been.
    """
    served = {span.key: span.started_ns for span in spans}
    if slots is None or slots < 1:
        return served
    sent = [span for span in spans if span.started_ns is not None]
    busy_until: list[int] = []
    for span in sorted(sent, key=lambda span: (_first_or_end_ns(span), span.queued_ns, span.key)):
        assert span.started_ns is not None
        at_ns = span.started_ns
        if len(busy_until) == slots:
            at_ns = max(at_ns, heapq.heappop(busy_until))
        served[span.key] = min(at_ns, _first_or_end_ns(span))
        heapq.heappush(busy_until, span.ended_ns)
    return served


def _first_or_end_ns(span: Span) -> int:
    return span.ended_ns if span.first_token_ns is None else span.first_token_ns


def strip(bars: Sequence[Bar]) -> Strip:
    """Tokens written up to each time at which the rate changes."""
    steps: list[tuple[float, float]] = []
    jumps: dict[float, float] = {}
    for bar in bars:
        if bar.first_s is None or not bar.output_tokens:
            continue
        if bar.ended_s > bar.first_s:
            rate = bar.output_tokens / (bar.ended_s - bar.first_s)
            steps += [(bar.first_s, rate), (bar.ended_s, -rate)]
        else:  # the whole answer came in one piece
            jumps[bar.ended_s] = jumps.get(bar.ended_s, 0.0) + bar.output_tokens
            steps.append((bar.ended_s, 0.0))
    times: list[float] = [0.0]
    tokens: list[float] = [0.0]
    rate = 0.0
    for time_s, group in itertools.groupby(sorted(steps), key=lambda step: step[0]):
        times.append(time_s)
        tokens.append(tokens[-1] + rate * (time_s - times[-2]))
        if time_s in jumps:
            times.append(time_s)
            tokens.append(tokens[-1] + jumps[time_s])
        rate = max(0.0, rate + sum(change for _, change in group))
    return Strip(time_s=times, tokens=tokens)


def critical_path(bars: Sequence[Bar]) -> list[int]:
    """Indices of the chain of causes that ends with the call that ended last, in order of time.

    Empty when that call has no parent: without causes there is no path, only a longest call.
    """
    if not bars:
        return []
    last: int | None = max(range(len(bars)), key=lambda index: (bars[index].ended_s, -index))
    chain: list[int] = []
    while last is not None and last not in chain:
        chain.append(last)
        last = bars[last].parent
    return chain[::-1] if len(chain) > 1 else []


def summary(timeline: Timeline) -> str:
    """The drawing in words, for those who do not see it."""
    bars = timeline.bars
    if not bars:
        return "No calls were recorded."
    failed = sum(bar.outcome is Outcome.FAILED for bar in bars)
    cancelled = sum(bar.outcome is Outcome.CANCELLED for bar in bars)
    together = most_decoding(bars)
    waits = sum(_waited(bar) for bar in bars)
    words = [
        f"{len(bars):,} calls on {len(timeline.rows):,} lanes in {timeline.duration_s:.1f} s",
        f"at most {together} decoding together",
    ]
    if timeline.slots is not None:
        words.append(f"{waits:,} waited for one of {timeline.slots:,} slots")
    words += [f"{count:,} {word}" for count, word in ((failed, "failed"), (cancelled, "cancelled")) if count]
    return ", ".join(words) + "."


def most_decoding(bars: Sequence[Bar]) -> int:
    """Most calls that were between first token and end at one time."""
    changes = sorted(
        change for bar in bars if bar.first_s is not None for change in ((bar.first_s, 1), (bar.ended_s, -1))
    )
    return max(itertools.accumulate(step for _, step in changes), default=0)


def _waited(bar: Bar) -> bool:
    return bar.served_s is not None and bar.started_s is not None and bar.served_s - bar.started_s > 1e-3
