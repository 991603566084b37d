"""What is kept of one call of a sweep, and what can be counted over many: tokens in a window, calls decoding together.

Pure. Times are nanoseconds of the run's clock; only differences mean anything.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

BUFFERED_SHARE = 0.05
"""A stream whose chunks all fall into less than this share of the call was held back on the way: 16 decode steps
against one prefill take far more than a twentieth of a lone call on every machine in the calibration rows."""
BUFFERED_MIN_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call as it was measured.

    Attributes:
        sent_ns, ended_ns: request handed over, and last byte (or failure, or cut-off).
        chunk_ns: arrival of every chunk with output, in order; empty when none came.
        output_tokens: from the server's usage; None when the call did not finish or no usage came.
        counted_tokens: True when `output_tokens` is only the number of chunks (the server sent no usage).
        failure: code of the failure, None when it did not fail.
        finished: False for a call that was cut off when the level ended.
        opening: True for a call of the opening burst, whose waiting is not that of the steady state.
        full_length: True when the whole output length was asked for (opening calls are shortened to spread them).
    """

    sent_ns: int
    ended_ns: int
    chunk_ns: tuple[int, ...] = ()
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    counted_tokens: bool = False
    failure: str | None = None
    finished: bool = True
    streamed: bool = True
    opening: bool = False
    full_length: bool = True

    @property
    def usable(self) -> bool:
        """Finished without failure."""
        return self.finished and self.failure is None

    @property
    def ttft_s(self) -> float | None:
        """Sent to first output; None when none came or the reply was one body."""
        return (self.chunk_ns[0] - self.sent_ns) / 1e9 if self.chunk_ns and self.streamed else None

    @property
    def e2e_s(self) -> float:
        """Sent to last byte."""
        return (self.ended_ns - self.sent_ns) / 1e9

    @property
    def tpot_s(self) -> float | None:
        """(last chunk - first chunk) / (output tokens - 1); None below two tokens or without a stream."""
        if not self.streamed or not self.chunk_ns or self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.chunk_ns[-1] - self.chunk_ns[0]) / 1e9 / (self.output_tokens - 1)

    @property
    def gaps_s(self) -> list[float]:
        """Gaps between chunks, in order."""
        if not self.streamed:
            return []
        return [(later - earlier) / 1e9 for earlier, later in itertools.pairwise(self.chunk_ns)]

    @property
    def buffered(self) -> bool:
        """Whether the stream came in one burst at its end, which says nothing about when tokens were made."""
        if not self.usable or not self.streamed or (self.output_tokens or 0) < BUFFERED_MIN_TOKENS:
            return False
        if not self.chunk_ns:
            return False
        return (self.chunk_ns[-1] - self.chunk_ns[0]) < BUFFERED_SHARE * (self.ended_ns - self.sent_ns)


def tokens_per_chunk(calls: Sequence[CallRecord]) -> float:
    """Median output tokens a chunk over finished calls; 1 when none tells.

    A chunk holds several tokens under speculative decoding, and some tokens make no chunk (half a UTF-8 character).
    """
    ratios = [
        call.output_tokens / len(call.chunk_ns)
        for call in calls
        if call.usable and call.output_tokens and call.chunk_ns
    ]
    return statistics.median(ratios) if ratios else 1.0


def tokens_in_window(calls: Sequence[CallRecord], start_ns: int, end_ns: int, ratio: float | None = None) -> float:
    """Output tokens that arrived in (start, end], over all calls whether or not they finished in it.

    Each chunk counts for its call's own tokens a chunk; a call that has not finished takes `ratio`, by default the
    median over the calls that have. A failed call's tokens count too: the server made them.
    """
    typical = tokens_per_chunk(calls) if ratio is None else ratio
    total = 0.0
    for call in calls:
        if not call.chunk_ns:
            continue
        each = call.output_tokens / len(call.chunk_ns) if call.usable and call.output_tokens else typical
        inside = bisect.bisect_right(call.chunk_ns, end_ns) - bisect.bisect_right(call.chunk_ns, start_ns)
        total += each * inside
    return total


def decoding_together(calls: Sequence[CallRecord]) -> int:
    """Most calls that were between first and last token at one time: the width the server really has.

    An overlap counts only when it was held in one piece for half a typical gap between chunks: a busy client may read
    the last chunk of one call after the first of its successor, and that must not add a slot.
    """
    # A call of one chunk was between its first and last token for no time at all.
    spans = [
        (call.chunk_ns[0], call.chunk_ns[-1])
        for call in calls
        if call.streamed and call.chunk_ns and call.chunk_ns[-1] > call.chunk_ns[0]
    ]
    if not spans:
        return 0
    mean_gaps_ns = [
        (call.chunk_ns[-1] - call.chunk_ns[0]) / (len(call.chunk_ns) - 1) for call in calls if len(call.chunk_ns) > 1
    ]
    held_ns = int(statistics.median(mean_gaps_ns) / 2) if mean_gaps_ns else 0
    return max(1, _longest_overlap(spans, held_ns))


def _longest_overlap(spans: Sequence[tuple[int, int]], held_ns: int) -> int:
    """Largest number of spans that overlap for at least `held_ns` without a break."""
    # Ends sort before starts at the same instant: a slot is handed over, not shared.
    edges = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    best = active = 0
    since: list[int] = []  # since[k] = when the count last rose to k + 1
    for t_ns, step in edges:
        if step > 0:
            since.append(t_ns)
            active += 1
            continue
        # Before the count falls: the deepest level that was held long enough.
        for depth in range(active, best, -1):
            if t_ns - since[depth - 1] >= held_ns:
                best = depth
                break
        active -= 1
        since.pop()
    return best
