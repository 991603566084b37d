"""Speculative decoding: off where it could help, or on and guessing wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from widelane.engines.advice import fix_for
from widelane.engines.engine import Gauges
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding, Origin, unknown
from widelane.measure.findings import build

HARMFUL_BELOW = 0.2
GOOD_FROM = 0.5
DEAD_POSITION = 0.05
"""A draft position accepted less often than this only costs."""
ENOUGH_DRAFTED = 20
"""Fewer drafted tokens than this say nothing about acceptance."""
OFF = ("", "none", "off", "false")


@dataclass(frozen=True, slots=True)
class Drafts:
    """Draft tokens offered and kept.

    Attributes:
        per_position: share kept by draft position, where the server says.
        seen: where the counts come from, e.g. "during the sweep".
    """

    drafted: float
    accepted: float
    per_position: Sequence[float] = ()
    seen: str = "since the server started"


def no_speculation(facts: ServerFacts) -> Finding:
    """`no-speculation`: a warning where the model ships a draft head, else a note."""
    code = "no-speculation"
    value = facts.speculation.value
    if value is None:
        return build.not_checked(code, facts.speculation.reason or "the server does not say")
    origin = facts.speculation.origin
    if not _is_off(value):
        return build.healthy(code, "Speculative decoding is on.", f"{value} ({origin}).")
    gain = unknown(
        "tok/s", "it depends on the text: 1.5 to 4.9 tokens a step were seen on one server", Origin.PREDICTED
    )
    said = f"Speculation: {'no' if value is False else value} ({origin})"
    head = facts.extra.get("draft_head")
    if head is not None and head.value:
        return build.warning(
            code,
            "The model ships a draft head, and speculative decoding is off.",
            f"{said}; draft head: {head.reason or head.value} ({head.origin}). "
            "One call gets faster; many calls at once gain less, and a mixture of experts can lose.",
            fix_for(code, facts),
            gain,
        )
    return build.info(
        code,
        "Speculative decoding is off.",
        f"{said}. With a small draft model of the same family one call gets faster; with many calls at once it gains "
        "little, so it is no substitute for width.",
        fix_for(code, facts),
        gain,
    )


def harmful_speculation(facts: ServerFacts, drafts: Drafts | None) -> Finding:
    """`harmful-speculation`: drafts that are mostly thrown away cost every step and give nothing back."""
    code = "harmful-speculation"
    if _is_off(facts.speculation.value) and (drafts is None or not drafts.drafted):
        return build.not_checked(code, "speculative decoding is off")
    if drafts is None:
        return build.not_checked(code, "the server does not count its drafts")
    if drafts.drafted < ENOUGH_DRAFTED:
        return build.not_checked(code, f"only {drafts.drafted:.0f} tokens were drafted {drafts.seen}: too few to tell")
    share = drafts.accepted / drafts.drafted
    said = f"{drafts.accepted:.0f} of {drafts.drafted:.0f} drafted tokens were kept {drafts.seen} ({share:.0%})"
    said += f"; by position {', '.join(f'{kept:.0%}' for kept in drafts.per_position)}." if drafts.per_position else "."
    if share < HARMFUL_BELOW:
        return build.warning(
            code,
            f"Speculative decoding guesses wrong: {share:.0%} of its drafts are kept.",
            f"{said} Each draft thrown away was paid for. It depends on the text: look again with yours.",
            fix_for(code, facts, depth=_useful_depth(drafts)),
            unknown("tok/s", "the cost of a draft was not measured", Origin.PREDICTED),
        )
    if drafts.per_position and drafts.per_position[-1] < DEAD_POSITION:
        depth = _useful_depth(drafts)
        title = f"The draft is too deep: beyond position {depth} nearly nothing is kept."
        return build.info(code, title, said, fix_for(code, facts, depth=depth))
    if share < GOOD_FROM:
        return build.info(code, f"Speculative decoding keeps {share:.0%} of its drafts.", said)
    return build.healthy(code, f"Speculative decoding keeps {share:.0%} of its drafts.", said)


def _useful_depth(drafts: Drafts) -> int | None:
    """Positions that are still kept now and then; None where that is not told, or none is."""
    return sum(kept >= DEAD_POSITION for kept in drafts.per_position) or None


def _is_off(value: object) -> bool:
    return value is False or (isinstance(value, str) and value.lower() in OFF)


def drafts_between(before: Gauges | None, after: Gauges | None) -> Drafts | None:
    """Drafts of the run where it made enough, else of the server's whole life; None where they are not counted."""
    if after is None or after.drafted_total is None:
        return None
    started = before if before is not None and before.drafted_total is not None else Gauges(drafted_total=0.0)
    if after.drafted_total - (started.drafted_total or 0.0) >= ENOUGH_DRAFTED:
        return _difference(started, after, "during this run")
    return _difference(Gauges(), after, "since the server started")


def _difference(before: Gauges, after: Gauges, seen: str) -> Drafts:
    drafts = (after.drafts_total or 0.0) - (before.drafts_total or 0.0)
    earlier = before.accepted_per_position or (0.0,) * len(after.accepted_per_position)
    kept = zip(after.accepted_per_position, earlier, strict=False)
    return Drafts(
        (after.drafted_total or 0.0) - (before.drafted_total or 0.0),
        (after.accepted_total or 0.0) - (before.accepted_total or 0.0),
        tuple((now - then) / drafts for now, then in kept) if drafts > 0 else (),
        seen,
    )
