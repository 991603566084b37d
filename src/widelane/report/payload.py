"""Timelines as the JSON that the page's script draws: columns of equal length, and the layout of the drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from markupsafe import Markup

from widelane.measure.profile import SweepReport
from widelane.report.compare import best_level
from widelane.report.timeline import Bar, Timeline, build

STRIP_PX = 72
"""Height of the tokens/s strip, its gap included."""
AXIS_PX = 34
"""Height of the time axis and the overview below the lanes."""
_LANES_PX = 640
"""What the lanes together take, when there are many."""
_ROW_PX = (4, 30)
"""Least and greatest height of one lane."""
_DECIMALS = 4
"""Times are kept to 0.1 ms: a client does not measure better."""

_COLOURS = {
    "measure": "blue",
    "work": "blue",
    "plan": "amber",
    "verify": "green",
    "integrate": "violet",
    "probe": "grey",
}
_FURTHER = ("rose", "grey", "green", "violet", "amber")


def timelines(sweep: SweepReport) -> list[Timeline]:
    """One timeline a level, held against the sweep's best throughput."""
    best = best_level(sweep.levels)
    slots = sweep.server.facts.slots.number
    return [
        build(
            spans,
            label=label,
            ceiling_tok_s=None if best is None else best.output_tok_s.number,
            slots=None if slots is None else int(slots),
        )
        for label, spans in sweep.timeline.items()
        if spans
    ]


def role_colours(shown: Sequence[Timeline]) -> dict[str, str]:
    """Role → name of its colour; the usual roles always have the same one."""
    roles = list(dict.fromkeys(role for timeline in shown for role in timeline.roles))
    unknown = [role for role in roles if role not in _COLOURS]
    return {
        role: _COLOURS[role] if role in _COLOURS else _FURTHER[unknown.index(role) % len(_FURTHER)] for role in roles
    }


def row_px(rows: int) -> int:
    """Height of one lane: tall for a few, thin for many."""
    return max(_ROW_PX[0], min(_ROW_PX[1], _LANES_PX // max(1, rows)))


def height_px(timeline: Timeline) -> int:
    """Height of the whole drawing."""
    return STRIP_PX + row_px(len(timeline.rows)) * len(timeline.rows) + AXIS_PX


def payload(timeline: Timeline) -> dict[str, Any]:
    """One timeline, in columns."""
    return {
        "label": timeline.label,
        "rows": list(timeline.rows),
        "rowPx": row_px(len(timeline.rows)),
        "height": height_px(timeline),
        "duration": _seconds(timeline.duration_s),
        "ceiling": timeline.ceiling_tok_s,
        "slots": timeline.slots,
        "critical": list(timeline.critical),
        "strip": {
            "t": [_seconds(time_s) for time_s in timeline.strip.time_s],
            "tokens": [round(tokens, 2) for tokens in timeline.strip.tokens],
        },
        "bars": _columns(timeline.bars),
    }


def _columns(bars: Sequence[Bar]) -> dict[str, list[Any]]:
    return {
        "key": [bar.key for bar in bars],
        "row": [bar.row for bar in bars],
        "role": [bar.role for bar in bars],
        "queued": [_seconds(bar.queued_s) for bar in bars],
        "started": [_seconds(bar.started_s) for bar in bars],
        "served": [_seconds(bar.served_s) for bar in bars],
        "first": [_seconds(bar.first_s) for bar in bars],
        "ended": [_seconds(bar.ended_s) for bar in bars],
        "prompt": [bar.prompt_tokens for bar in bars],
        "cached": [bar.cached_tokens for bar in bars],
        "output": [bar.output_tokens for bar in bars],
        "attempts": [bar.attempts for bar in bars],
        "outcome": [str(bar.outcome) for bar in bars],
        "error": [bar.error for bar in bars],
        "detail": [bar.detail for bar in bars],
        "parent": [bar.parent for bar in bars],
    }


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)


def script_json(value: Mapping[str, Any]) -> Markup:
    """JSON that can stand inside a script element: no `<`, `>` or `&`, so nothing in it can end the element."""
    text = msgspec.json.encode(value).decode()
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - every sign that HTML reads is escaped above
