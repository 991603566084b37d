"""Rows that no machine can produce, and what is wrong with them. Pure.

An impossible row is never dropped: it is shown, with the reason why it cannot be believed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from widelane.measure.calls import CallRecord

IMPOSSIBLE = "impossible-figure"
PREFIX_HIT = "prefix-cache-hit"
BUFFERED = "buffering-proxy"

_LITTLE_SLACK = 4 / 3
"""Rate x time in the system equals the calls in flight; windows of a few calls stray by a quarter."""
_PREFILL_FACTOR = 3.0
_SHORTEST_PREFILL_S = 0.010
_CACHED_SHARE = 0.3
_BUFFERED_SHARE_OF_CALLS = 0.8


class Doubt(NamedTuple):
    """One thing that cannot be, or not be what it seems."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured row, ours or somebody's; None where it does not say.

    Attributes:
        per_request_tok_s: output tokens over a call's time, of one call.
        per_request_covers_waiting: True when that time includes waiting and prefill (E2E), as the total's does.
        step_s: seconds of one decode step.
        read_bytes: bytes that every step must read whatever the batch (the dense weights).
        bandwidth_bytes_s: nominal memory bandwidth of all devices together.
    """

    concurrency: int
    output_tok_s: float | None = None
    peak_tok_s: float | None = None
    per_request_tok_s: float | None = None
    per_request_covers_waiting: bool = True
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    decoding_together: float | None = None
    step_s: float | None = None
    read_bytes: float | None = None
    bandwidth_bytes_s: float | None = None


def impossible(row: Row) -> list[Doubt]:
    """What is impossible about a row by itself."""
    found = [*_times(row), *_rates(row)]
    if row.read_bytes and row.bandwidth_bytes_s and row.step_s and row.step_s > 0:
        share = row.read_bytes / row.step_s / row.bandwidth_bytes_s
        if share > 1:  # nothing comes near: the best of the public rows reach 85 %
            found.append(
                Doubt(
                    IMPOSSIBLE,
                    f"Reading {row.read_bytes / 1e9:.3g} GB in a step of {row.step_s * 1e3:.3g} ms would take "
                    f"{share:.0%} of the nominal bandwidth of {row.bandwidth_bytes_s / 1e9:.4g} GB/s.",
                )
            )
    return found


def _times(row: Row) -> list[Doubt]:
    named = {"TTFT": row.ttft_s, "TPOT": row.tpot_s, "E2E": row.e2e_s}
    found = [
        Doubt(IMPOSSIBLE, f"A {name} of {value * 1e3:.3g} ms cannot be: time passes.")
        for name, value in named.items()
        if value is not None and value <= 0
    ]
    if row.ttft_s is not None and row.e2e_s is not None and row.ttft_s > row.e2e_s > 0:
        found.append(
            Doubt(IMPOSSIBLE, f"TTFT ({row.ttft_s:.3g} s) is longer than the whole call (E2E {row.e2e_s:.3g} s).")
        )
    return found


def _rates(row: Row) -> list[Doubt]:
    found = []
    total = row.output_tok_s
    if total is not None and row.peak_tok_s is not None and row.peak_tok_s < total * 0.999:
        found.append(
            Doubt(IMPOSSIBLE, f"The peak of {row.peak_tok_s:.4g} tok/s is below the mean of {total:.4g} tok/s.")
        )
    if row.decoding_together is not None and row.decoding_together > row.concurrency:
        found.append(
            Doubt(
                IMPOSSIBLE,
                f"{row.decoding_together:.0f} calls decoded together while {row.concurrency} were offered: calls of an "
                "earlier level were still running.",
            )
        )
    if total and row.per_request_tok_s:
        in_flight = total / row.per_request_tok_s
        # A decoding rate leaves out the waiting, so then only too few calls in flight would be fine.
        too_many = in_flight > row.concurrency * _LITTLE_SLACK
        too_few = in_flight < row.concurrency / _LITTLE_SLACK and row.per_request_covers_waiting
        if too_many or too_few:
            found.append(
                Doubt(
                    IMPOSSIBLE,
                    f"{total:.4g} tok/s in all at {row.per_request_tok_s:.3g} tok/s a call means {in_flight:.1f} calls "
                    f"in flight, not {row.concurrency}.",
                )
            )
    return found


def call_doubts(calls: Sequence[CallRecord]) -> list[Doubt]:
    """What is impossible about single calls: times that run backwards."""
    backwards = sum(
        call.ended_ns < call.sent_ns
        or bool(call.chunk_ns and (call.chunk_ns[0] <= call.sent_ns or list(call.chunk_ns) != sorted(call.chunk_ns)))
        for call in calls
    )
    if not backwards:
        return []
    return [
        Doubt(IMPOSSIBLE, f"In {backwards} of {len(calls)} calls something came before its cause (negative times).")
    ]


def prefix_doubts(calls: Sequence[CallRecord]) -> list[Doubt]:
    """Prompts that the server found in its cache although each was new: their TTFT is no prefill."""
    known = [call for call in calls if call.prompt_tokens and call.cached_tokens is not None]
    if not known:
        return []
    cached = sum(call.cached_tokens or 0 for call in known)
    prompt = sum(call.prompt_tokens or 0 for call in known)
    if cached < _CACHED_SHARE * prompt:
        return []
    return [
        Doubt(PREFIX_HIT, f"{cached / prompt:.0%} of the prompt tokens came from the prefix cache: TTFT is too good.")
    ]


def buffered_doubts(calls: Sequence[CallRecord]) -> list[Doubt]:
    """Streams that came in one piece: something on the way collects them, so TTFT and TPOT are not the server's."""
    told = [call for call in calls if call.usable and call.streamed and (call.output_tokens or 0) >= 8]
    held = sum(call.buffered for call in told)
    if not told or held < _BUFFERED_SHARE_OF_CALLS * len(told):
        return []
    share = statistics.median(
        (call.chunk_ns[-1] - call.chunk_ns[0]) / max(1, call.ended_ns - call.sent_ns) for call in told if call.chunk_ns
    )
    return [
        Doubt(
            BUFFERED,
            f"{held} of {len(told)} streams came in one burst at their end (the chunks span {share:.1%} of the call): "
            "a proxy on the way buffers them, so TTFT, TPOT and ICL are not the server's.",
        )
    ]


def series_doubts(ttft_by_level: Sequence[tuple[int, float]], alone_s: float | None) -> dict[int, Doubt]:
    """Levels, by concurrency, whose first tokens came several times faster than a lone call's: not a real prefill."""
    if alone_s is None or alone_s < _SHORTEST_PREFILL_S:
        return {}
    return {
        concurrency: Doubt(
            IMPOSSIBLE,
            f"TTFT of {ttft * 1e3:.3g} ms is {alone_s / ttft:.1f} times quicker than a lone call's "
            f"({alone_s * 1e3:.3g} ms): the prompt was not read (prefix cache?).",
        )
        for concurrency, ttft in ttft_by_level
        if 0 < ttft < alone_s / _PREFILL_FACTOR
    }
