"""Token counts as servers send them, under whatever names and in whatever chunk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from widelane.records import Usage, UsageOrigin


def read_usage(usage: Any) -> Usage | None:
    """The counts of a `usage` object; None when it holds none."""
    if not isinstance(usage, Mapping):
        return None
    prompt = _count(usage, "prompt_tokens", "input_tokens")
    completion = _count(usage, "completion_tokens", "output_tokens")
    total = _count(usage, "total_tokens")
    if completion is None and prompt is not None and total is not None:
        completion = total - prompt
    if completion is None or (completion == 0 and not prompt):
        return None
    return Usage(
        prompt,
        completion,
        cached_tokens=_count(usage.get("prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def usage_from_timings(timings: Any) -> Usage | None:
    """llama.cpp's `timings` hold the counts also when `usage` was not asked for."""
    predicted = _count(timings, "predicted_n")
    fresh = _count(timings, "prompt_n")
    if predicted is None or fresh is None:
        return None
    cached = _count(timings, "cache_n")
    return Usage(fresh + (cached or 0), predicted, cached_tokens=cached)


def counted_usage(content_events: int) -> Usage | None:
    """What the client can say by itself: at least one token an event."""
    return Usage(None, content_events, origin=UsageOrigin.COUNTED) if content_events else None


def _count(counts: Any, *names: str) -> int | None:
    if not isinstance(counts, Mapping):
        return None
    for name in names:
        value = counts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
