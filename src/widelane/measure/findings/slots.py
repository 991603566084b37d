"""Too few slots: calls wait for a place though the machine could take them.

Decided by the quick sweep; the facts alone can only say how many places there are. Two things are told apart that a
throughput curve mixes: calls that wait (they decode `slots` at a time, whatever is offered) and speed that more slots
would add (predicted). Few slots are a fault for the waiting alone; many are one only where more would add speed.
"""

from __future__ import annotations

from widelane.engines.advice import fix_for
from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure, Finding, Origin, unknown
from widelane.measure.decoding_cap import find_cap
from widelane.measure.findings import build
from widelane.measure.findings.needs import Needs
from widelane.measure.findings.slot_gain import StepLine, advised_slots, step_line
from widelane.measure.profile import Limit, SweepReport
from widelane.measure.step_cost import GREW, name_cost, step_cost

CODE = "too-few-slots"
ENOUGH = "enough-slots"
"""Health has its own code: a reader looking for `too-few-slots` must not find it on a server that has enough."""
DISAGREE = "slots-disagree"
FEW_SLOTS = 8
"""Below this, waiting calls are reported even where more slots add little speed: an agent with helpers needs more."""
WORTH_REPORTING = 1.25
"""From FEW_SLOTS on, too few slots are reported from this predicted gain on."""
LARGE_GAIN = 1.5
"""From this predicted gain on, too few slots are an error: most of the machine is wasted."""
SEEN_FAR_BELOW = 0.75
"""Fewer than this share of the stated slots seen decoding, in a sweep that ended at slots, is a contradiction."""


def too_few_slots(facts: ServerFacts, sweep: SweepReport | None, needs: Needs) -> Finding:
    """The finding `too-few-slots`; `enough-slots` where something else makes the plateau."""
    slots = _count(facts.slots)
    if sweep is None:
        return _without_sweep(facts, slots, needs)
    if sweep.limit is Limit.CLIENT:
        return build.not_checked(CODE, "the client could not keep up, so the sweep says nothing about the server")
    limit, evidence = limit_seen(facts, sweep)
    if limit is not Limit.SLOTS:
        return _other_limit(sweep, slots, limit, evidence)
    width = slots or _widest_seen(sweep)
    if width is None:
        return build.not_checked(CODE, "the sweep ended at slots, but their number could not be found out")
    return _short_of_slots(facts, sweep, needs, width, evidence)


def limit_seen(facts: ServerFacts, sweep: SweepReport) -> tuple[Limit, str]:
    """The limit as a user meets it, and why: the sweep's own, but for two cases in which slots and machine both end.

    Few slots on a machine that is at its own limit too: the fifth call waits for a slot, and that is what its user
    sees. Many slots, of which more would add next to nothing: the machine is the limit, though the last calls wait.
    """
    if sweep.limit is Limit.SLOTS:
        return _machine_ends_too(facts, sweep) or (sweep.limit, sweep.limit_evidence)
    if sweep.limit not in (Limit.COMPUTE, Limit.BANDWIDTH):
        return sweep.limit, sweep.limit_evidence
    cap = find_cap(sweep.levels, sweep.workload.output_tokens)
    if cap is None or cap.slots >= FEW_SLOTS:
        return sweep.limit, sweep.limit_evidence
    waiting = f"At most {cap.slots} calls decoded together while up to {cap.offered} were offered: the others waited."
    return Limit.SLOTS, f"{waiting} They would be no faster together: {sweep.limit_evidence}"


def _machine_ends_too(facts: ServerFacts, sweep: SweepReport) -> tuple[Limit, str] | None:
    slots, plateau = _count(facts.slots) or _widest_seen(sweep), plateau_tok_s(sweep)
    if slots is None or slots < FEW_SLOTS or plateau is None:
        return None
    target, gain = predicted_gain(sweep, slots)
    cost = step_cost(sweep.levels)
    if gain.number is None or gain.number >= plateau * WORTH_REPORTING or cost is None or cost.growth < GREW:
        return None
    context_tokens = sweep.workload.prompt_tokens + sweep.workload.output_tokens / 2
    limit, words = name_cost(cost, context_tokens, facts)
    return limit, f"{words} With more than these {slots} slots, {_gain_words(gain, plateau, target)}"


def slots_disagree(facts: ServerFacts, sweep: SweepReport | None) -> Finding | None:
    """A warning when the server was seen to decode far fewer calls at a time than it says; else None."""
    slots, seen = _count(facts.slots), None if sweep is None else _widest_seen(sweep)
    if sweep is None or slots is None or seen is None or facts.slots.origin is not Origin.READ:
        return None
    offered = max(level.concurrency for level in sweep.levels)
    if limit_seen(facts, sweep)[0] is not Limit.SLOTS or offered <= seen or seen >= slots * SEEN_FAR_BELOW:
        return None
    return build.warning(
        DISAGREE,
        f"The server says {slots} slots and was seen to decode {seen} calls at a time.",
        f"{offered} calls were offered. A proxy with its own limit, or another server behind the address, does that.",
    )


def predicted_gain(sweep: SweepReport, slots: int) -> tuple[int, Figure]:
    """How many slots to ask for, and the output tok/s predicted at that width.

    The figure is unknown, with its reason, when fewer than two levels lie within the present slots.
    """
    cost = step_line(sweep.levels, slots)
    target = advised_slots(cost, slots)
    if cost is None:
        reason = f"what a wider step costs is not known: fewer than two levels lie within {slots} slot(s)"
        return target, unknown("tok/s", reason, Origin.PREDICTED)
    return target, _gain_figure(cost, target)


def plateau_tok_s(sweep: SweepReport) -> float | None:
    """The highest measured throughput."""
    rates = [rate for level in sweep.levels if (rate := level.output_tok_s.number) is not None]
    return max(rates, default=None)


def context_wanted(facts: ServerFacts, needs: Needs, slots: int) -> int | None:
    """Tokens each slot should get because the use needs more than it can count on now; None when it has enough.

    In a shared pool a slot can count on its share only, whatever context it claims. Never above what the model was
    trained for.
    """
    share, wanted = _fair_share(facts, slots), needs.context_tokens
    if wanted is None or (share is not None and share >= wanted):
        return None
    trained = _count(facts.context_trained)
    return min(wanted, trained) if trained else wanted


def _fair_share(facts: ServerFacts, slots: int) -> int | None:
    context = _count(facts.context_per_slot)
    if context and facts.unified_pool.value is True:
        pool = _count(facts.pool_tokens) or context
        return pool // slots
    return context


def _short_of_slots(facts: ServerFacts, sweep: SweepReport, needs: Needs, slots: int, evidence: str) -> Finding:
    target, gain = predicted_gain(sweep, slots)
    each = context_wanted(facts, needs, slots)
    fix = fix_for(CODE, facts, slots=target, context=each)
    plateau = plateau_tok_s(sweep)
    if slots >= FEW_SLOTS and gain.number is not None and plateau and gain.number < plateau * WORTH_REPORTING:
        words = f"With more slots, {_gain_words(gain, plateau, target)}"
        return build.healthy(ENOUGH, f"{slots} slots get nearly all that this machine has.", f"{evidence} {words}")
    pays = gain.number is not None and plateau is not None and gain.number >= plateau * LARGE_GAIN
    report = build.error if pays else build.warning
    return report(
        CODE,
        f"{slots} slot{'s' if slots > 1 else ''}: with more calls than that, the rest wait.",
        f"{evidence} With more slots, {_gain_words(gain, plateau, target)}{_memory_words(facts, each, target, slots)}",
        fix,
        gain,
    )


def _gain_figure(cost: StepLine, target: int) -> Figure:
    value, low, high = cost.tok_s(target)
    widths = ", ".join(str(width) for width in cost.points)
    reason = f"at {target} calls: the step times measured at {widths} calls, continued in a straight line"
    return Figure(round(value, 1), "tok/s", Origin.PREDICTED, round(low, 1), round(high, 1), reason)


def _gain_words(gain: Figure, plateau: float | None, target: int) -> str:
    if gain.number is None or plateau is None:
        return "what more slots would bring is not known yet; the waiting would end."
    if gain.number < plateau * 0.95:
        return (
            f"the waiting ends, but no speed is added: {gain.number:.0f} tok/s predicted at {target} calls, against "
            f"{plateau:.0f} at best now, because the step grows with each call. Worth it for shorter waits only."
        )
    if gain.number < plateau * 1.1:
        return (
            f"the waiting ends and little speed is added: {gain.number:.0f} tok/s predicted at {target} calls "
            f"against {plateau:.0f} now, because the step grows with each call."
        )
    return f"predicted are {gain.number:.0f} tok/s at {target} calls, against {plateau:.0f} now."


def _memory_words(facts: ServerFacts, each: int | None, target: int, slots: int) -> str:
    """What the advice costs in memory, where the server's pool is sized by slots times context (llama.cpp)."""
    pool, share = _count(facts.pool_tokens), each or _fair_share(facts, slots)
    if facts.engine != "llama.cpp" or pool is None or share is None:
        return ""
    now = _count(facts.context_per_slot)
    words = "" if now is None or now <= share else f" One call may then hold {share:,} tokens; now up to {now:,}."
    if target * share <= pool:
        return words
    return f"{words} The KV pool grows from {pool:,} to {target * share:,} tokens, and its memory with it."


def _without_sweep(facts: ServerFacts, slots: int | None, needs: Needs) -> Finding:
    if slots is None:
        return build.not_checked(CODE, f"no sweep was made, and the slots are unknown: {facts.slots.reason}")
    if needs.width is None or slots >= needs.width:
        return build.not_checked(CODE, f"{slots} slots ({facts.slots.origin}); no sweep was made to see if they limit")
    return build.warning(
        CODE,
        f"{slots} slots ({facts.slots.origin}), and this use likes {needs.width} calls at a time.",
        f"{needs.said}. What more slots would bring was not measured: no sweep was made.",
        fix_for(CODE, facts, slots=needs.width, context=context_wanted(facts, needs, slots)),
        unknown("tok/s", "no sweep was made", Origin.PREDICTED),
    )


def _other_limit(sweep: SweepReport, slots: int | None, limit: Limit, evidence: str) -> Finding:
    places = f"{slots} slots" if slots else "its slots"
    if limit is Limit.NOT_REACHED:
        widest = max(level.concurrency for level in sweep.levels)
        return build.healthy(ENOUGH, f"{places} were enough for {widest} calls at a time.", evidence)
    if limit is Limit.UNKNOWN:
        return build.not_checked(CODE, f"what ends the growth could not be told: {evidence}")
    return build.healthy(ENOUGH, f"Not {places} but {LIMIT_WORDS[limit]} ends the growth.", evidence)


LIMIT_WORDS = {
    Limit.BANDWIDTH: "memory bandwidth",
    Limit.COMPUTE: "the processor's arithmetic",
    Limit.KV_POOL: "the KV pool",
}
"""What makes the plateau, in the words of a sentence."""


def _widest_seen(sweep: SweepReport) -> int | None:
    seen = [int(count) for level in sweep.levels if (count := level.decoding_together.number) is not None]
    return max(seen, default=None)


def _count(figure: Figure) -> int | None:
    number = figure.number
    return int(number) if number and number >= 1 else None
