"""The first line of the report: what this server's width is, and whether more of it would pay."""

from __future__ import annotations

from collections.abc import Sequence

from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure, Finding, Severity
from widelane.measure.findings.slots import CODE as TOO_FEW
from widelane.measure.findings.slots import ENOUGH, LARGE_GAIN, limit_seen, plateau_tok_s
from widelane.measure.profile import Limit, SweepReport

SMALL_GAIN = 1.1
"""Below this factor more slots are said to add little."""


def verdict(facts: ServerFacts, sweep: SweepReport | None, findings: Sequence[Finding]) -> str:
    """One line: the width, what ends it, and what spoils answers besides."""
    return f"{_width(facts, sweep, findings)}{_faults(findings)}"


def _width(facts: ServerFacts, sweep: SweepReport | None, findings: Sequence[Finding]) -> str:
    if sweep is None or not sweep.levels:
        return f"{_places(facts)} What width is worth was not measured."
    plateau = plateau_tok_s(sweep)
    if sweep.limit is Limit.CLIENT or plateau is None:
        return "The client could not keep up with this server, so there is no verdict about its width."
    limit, _ = limit_seen(facts, sweep)
    if limit is Limit.SLOTS:
        return f"{_waiting(facts)} {_worth(findings, plateau)}"
    return f"{_places(facts)} {_other_limit(sweep, limit, plateau)}"


def _places(facts: ServerFacts) -> str:
    slots = facts.slots.number
    if slots is None:
        return "How many requests this server decodes at a time is not known."
    if slots == 1:
        return "This server decodes one request at a time."
    return f"This server decodes up to {slots:.0f} requests at a time."


def _waiting(facts: ServerFacts) -> str:
    slots = facts.slots.number
    if slots is None:
        return "This server decodes a fixed number of requests at a time; the rest wait."
    many = f"{slots:.0f} requests" if slots > 1 else "one request"
    return f"This server decodes {many} at a time; your {ordinal(int(slots) + 1)} waits."


def _worth(findings: Sequence[Finding], plateau: float) -> str:
    slots = next((finding for finding in findings if finding.code in (TOO_FEW, ENOUGH)), None)
    if slots is not None and slots.code == ENOUGH:
        return f"More slots would add little speed: these get nearly all of this machine ({plateau:.0f} tok/s)."
    gain = slots.gain if slots is not None else None
    if gain is None or gain.number is None:
        return "More slots end the waiting; what they add in speed is not known yet."
    factor = gain.number / plateau
    if factor >= LARGE_GAIN:
        return f"More slots are worth about {factor:.1f}× on this machine ({_interval(gain)}, predicted)."
    if factor >= SMALL_GAIN:
        return f"More slots end the waiting and add about {factor - 1:.0%} ({_interval(gain)}, predicted)."
    return (
        f"More slots end the waiting but add little speed: {gain.number:.0f} tok/s predicted against {plateau:.0f}, "
        "because each further call makes the step longer."
    )


def _interval(gain: Figure) -> str:
    if gain.low is None or gain.high is None:
        return f"{gain.number:.0f} tok/s"
    return f"{gain.low:.0f}–{gain.high:.0f} tok/s"


def _other_limit(sweep: SweepReport, limit: Limit, plateau: float) -> str:
    widest = max(level.concurrency for level in sweep.levels)
    knee = sweep.knee.concurrency.number if sweep.knee else None
    at = "" if knee is None else " from the first call on" if knee == 1 else f" from {knee:.0f} calls on"
    if limit is Limit.NOT_REACHED:
        return f"Throughput still rose at {widest} ({plateau:.0f} tok/s): the road is wider than this quick look."
    if limit is Limit.COMPUTE:
        return f"The total stays near {plateau:.0f} tok/s{at}: arithmetic is the limit, and more width does not pay."
    if limit is Limit.BANDWIDTH:
        return f"The total stays near {plateau:.0f} tok/s{at}: each further call adds bytes to read at every step."
    if limit is Limit.KV_POOL:
        return f"The total stays near {plateau:.0f} tok/s{at}: the KV pool is full."
    return f"The total stays near {plateau:.0f} tok/s{at}, and this look could not tell why."


def _faults(findings: Sequence[Finding]) -> str:
    faults = [f.code for f in findings if f.severity is Severity.ERROR and f.code != TOO_FEW]
    if not faults:
        return ""
    return f" Mend first: {', '.join(faults)}."


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"
