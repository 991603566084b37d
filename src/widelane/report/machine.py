"""The honest sentence about a machine: how wide it is, and what ends its width."""

from __future__ import annotations

from widelane.measure.profile import Limit, SweepReport
from widelane.measure.step_cost import StepCost, step_cost
from widelane.report.compare import best_level
from widelane.report.text import number_text, seconds_text

SMALL_GAIN = 1.2
"""Below this ratio of many lanes to one, width is called not worth having."""

_STEP_GREW = 2.0
"""From this growth of the step on, arithmetic (or bytes of its own) weighs as much as reading the weights."""
_CPU_WORDS = (
    "each further sequence needs arithmetic of its own, and a CPU has little to spare beside reading the weights. "
    "On a GPU arithmetic is what idles, and a step stays cheap for many more sequences."
)
_WHY = {
    Limit.COMPUTE: f"What ends it is arithmetic: {_CPU_WORDS}",
    Limit.BANDWIDTH: "What ends it is memory bandwidth: each further sequence adds bytes of its own to read.",
    Limit.SLOTS: "What ends it is still the number of slots: it may be wider than this.",
    Limit.KV_POOL: "What ends it is the KV pool: more memory for it, or a smaller KV type, would widen it.",
    Limit.CLIENT: "This client could not keep up, so the width is not known.",
    Limit.NOT_REACHED: "It was still rising at the widest level: it is wider than this.",
}


def machine_sentence(before: SweepReport, after: SweepReport) -> str:
    """What this machine's width is, from the wider of two sweeps, and what limits it. Plain text.

    Says so when width does not pay. One lane and many are taken from the same sweep where it has both, so that what
    changed on the machine between the two does not count as width.
    """
    alone = next((level for level in (*after.levels, *before.levels) if level.concurrency == 1), None)
    best = best_level(after.levels)
    if alone is None or best is None or not alone.output_tok_s.number or not best.output_tok_s.number:
        return "This machine's width is not known: one of the two sweeps has no throughput."
    one, many = alone.output_tok_s.number, best.output_tok_s.number
    if many / one < SMALL_GAIN:
        opening = (
            f"This machine has no width worth having for this model: {number_text(one)} tok/s alone, "
            f"{number_text(many)} tok/s at {best.concurrency} lanes (measured). Width does not pay here."
        )
    else:
        opening = (
            f"This machine's width for this model is ×{many / one:.1f} (measured): {number_text(one)} tok/s alone, "
            f"{number_text(many)} tok/s at {best.concurrency} lanes."
        )
    cost = step_cost(after.levels)
    return " ".join(part for part in (opening, _why(after.limit, cost), _step_words(cost)) if part)


def _why(limit: Limit, cost: StepCost | None) -> str:
    """What ends the width. Slots are not the whole truth where the step has grown within them already."""
    if limit is Limit.SLOTS and cost is not None and cost.growth >= _STEP_GREW and cost.each_s > 0:
        return (
            f"It stops at the slots, and many more of them would bring at most about {number_text(1 / cost.each_s)} "
            f"tok/s (predicted): {_CPU_WORDS}"
        )
    return _WHY.get(limit, "")


def _step_words(cost: StepCost | None) -> str:
    if cost is None:
        return ""
    (narrow, narrow_s), (wide, wide_s) = cost.narrow, cost.wide
    return (
        f"A step took {seconds_text(narrow_s)} for {number_text(narrow)} and {seconds_text(wide_s)} for "
        f"{number_text(wide)} sequences (measured): about {seconds_text(cost.base_s)} for the weights, read once for "
        f"all, and {seconds_text(cost.each_s)} for each sequence (inferred)."
    )
