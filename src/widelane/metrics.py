"""What is measured of a call, with one definition each (see docs/reference/metrics.md).

TTFT, TPOT, ICL and E2E follow vLLM's words; the functions take a reply's timing and return seconds, or None where the
metric is not defined. None is never averaged in as zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from widelane.figures import Figure, Origin, unknown
from widelane.records import CallTiming


def ttft_s(timing: CallTiming) -> float | None:
    """Request sent to first output token received, queueing included. None for a reply that was not streamed."""
    if timing.first_token_ns is None or not timing.streamed:
        return None
    return (timing.first_token_ns - timing.sent_ns) / 1e9


def e2e_s(timing: CallTiming) -> float:
    """Request sent to last byte received."""
    return (timing.ended_ns - timing.sent_ns) / 1e9


def tpot_s(timing: CallTiming, output_tokens: int | None) -> float | None:
    """(E2E - TTFT) / (output tokens - 1): one value a call, undefined below two tokens.

    E2E ends here at the last chunk with output, so that a late usage chunk does not count as decoding.
    """
    if timing.first_token_ns is None or not timing.streamed or output_tokens is None or output_tokens < 2:
        return None
    last_ns = timing.chunk_ns[-1] if timing.chunk_ns else timing.ended_ns
    return (last_ns - timing.first_token_ns) / 1e9 / (output_tokens - 1)


def icl_s(timing: CallTiming) -> list[float]:
    """Gaps between received chunks, in order. A chunk may hold several tokens, so this is not an inter-token time."""
    times = timing.chunk_ns
    if not timing.streamed:
        return []
    return [(later - earlier) / 1e9 for earlier, later in itertools.pairwise(times)]


def percentile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile (0 … 1) with linear interpolation between order statistics (numpy's default, Hyndman-Fan 7).

    None for no values.
    """
    if not values:
        return None
    ordered = sorted(values)
    position = (len(ordered) - 1) * q
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def percentile_figure(values: Sequence[float], q: float, unit: str, reason: str) -> Figure:
    """The percentile as a measured figure; `reason` says why there is none when `values` is empty."""
    value = percentile(values, q)
    return unknown(unit, reason, Origin.MEASURED) if value is None else Figure(value, unit, Origin.MEASURED)
