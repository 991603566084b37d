"""How long a reply asks its client to wait."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_WAIT_S = 120.0
"""Longer wishes are cut to this."""


def retry_after_s(headers: Mapping[str, str], wall_s: float | None = None) -> float | None:
    """Seconds to wait by `Retry-After` (seconds or a date) or `retry-after-ms`; None when nothing usable is there.

    A date is relative to the reply's own `Date`: the two clocks need not agree.

    Args:
        headers: names in lower case.
        wall_s: the client's clock, used only for a date in a reply that has no `Date`.
    """
    wait = _number(headers.get("retry-after-ms"))
    if wait is not None:
        return _bounded(wait / 1000)
    text = headers.get("retry-after")
    if text is None:
        return None
    wait = _number(text)
    if wait is not None:
        return _bounded(wait)
    until = _date(text)
    now = _date(headers.get("date")) or (datetime.fromtimestamp(wall_s, UTC) if wall_s is not None else None)
    return _bounded((until - now).total_seconds()) if until and now else None


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_WAIT_S)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return None if value is None or math.isnan(value) else value


def _date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        date = parsedate_to_datetime(text.strip())
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
