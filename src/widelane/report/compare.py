"""Before against after: an honest ratio, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from widelane.figures import Figure, Origin, plural, unknown
from widelane.measure.profile import Level, Limit, SweepReport
from widelane.report.text import list_text, number_text


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPair:
    """The same concurrency, before and after; None where one side did not measure it."""

    concurrency: int
    before: Level | None
    after: Level | None
    ratio: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sweeps of the same workload.

    Attributes:
        best_before, best_after: the level with the highest throughput on either side; None when nothing was measured.
        ratio: best after over best before, with a 95 % interval where both sides have one.
        pairs: every concurrency of either side, rising.
        verdict: one plain sentence. detail: what was held against what, and what the change cost.
    """

    best_before: Level | None
    best_after: Level | None
    ratio: Figure
    pairs: Sequence[LevelPair]
    verdict: str
    detail: str


def compare(before: SweepReport, after: SweepReport) -> Comparison:
    """Best against best: picking the level where the change looks largest would flatter it."""
    reason = _not_comparable(before, after)
    best_before, best_after = best_level(before.levels), best_level(after.levels)
    total = _ratio_of(best_before, best_after, reason)
    by_before = {level.concurrency: level for level in before.levels}
    by_after = {level.concurrency: level for level in after.levels}
    pairs = [
        LevelPair(
            concurrency=concurrency,
            before=by_before.get(concurrency),
            after=by_after.get(concurrency),
            ratio=_ratio_of(by_before.get(concurrency), by_after.get(concurrency), reason),
        )
        for concurrency in sorted(by_before.keys() | by_after.keys())
    ]
    return Comparison(
        best_before=best_before,
        best_after=best_after,
        ratio=total,
        pairs=pairs,
        verdict=_verdict(total),
        detail=_detail(best_before, best_after, total, pairs),
    )


def best_level(levels: Sequence[Level]) -> Level | None:
    """The level with the highest measured throughput, the narrowest of equals; spoiled levels do not count."""
    usable = [level for level in levels if level.output_tok_s.number is not None and not level.client.spoiled]
    return max(usable, key=lambda level: (level.output_tok_s.number or 0.0, -level.concurrency), default=None)


def ratio(before: Figure, after: Figure) -> Figure:
    """after / before, with a 95 % interval.

    The two are independent, so their relative half-widths add as squares (delta method on the logarithm), and the
    bounds are `ratio × exp(± that)`.
    """
    first, second = before.number, after.number
    if first is None or second is None:
        return unknown("×", before.reason or after.reason or "not measured", Origin.MEASURED)
    if first <= 0:
        return unknown("×", "nothing was produced before", Origin.MEASURED)
    value = second / first
    halves = [_relative_half(figure) for figure in (before, after)]
    if second <= 0 or any(half is None for half in halves):
        return Figure(value, "×", Origin.MEASURED, reason="no interval: one side was measured only once")
    spread = math.hypot(*(half for half in halves if half is not None))
    return Figure(value, "×", Origin.MEASURED, low=value * math.exp(-spread), high=value * math.exp(spread))


def _relative_half(figure: Figure) -> float | None:
    if not figure.number or figure.low is None or figure.high is None:
        return None
    return (figure.high - figure.low) / 2 / figure.number


def _not_comparable(before: SweepReport, after: SweepReport) -> str | None:
    if Limit.CLIENT in (before.limit, after.limit):
        return "the client could not keep up in one of the sweeps"
    sizes = [(sweep.workload.prompt_tokens, sweep.workload.output_tokens) for sweep in (before, after)]
    if sizes[0] != sizes[1]:
        words = [f"{number_text(prompt)} + {number_text(output)}" for prompt, output in sizes]
        return f"the workloads differ: {list_text(words)} prompt + output tokens a call"
    if before.workload.endpoint != after.workload.endpoint:
        return f"the endpoints differ: {before.workload.endpoint} and {after.workload.endpoint}"
    return None


def _ratio_of(before: Level | None, after: Level | None, reason: str | None) -> Figure:
    if reason is not None:
        return unknown("×", reason, Origin.MEASURED)
    if before is None or after is None:
        return unknown("×", "not measured on both sides", Origin.MEASURED)
    if before.client.spoiled or after.client.spoiled:
        return unknown("×", "the client could not keep up at this concurrency", Origin.MEASURED)
    return ratio(before.output_tok_s, after.output_tok_s)


def _verdict(total: Figure) -> str:
    value = total.number
    if value is None:
        return f"No comparison: {total.reason}."
    if total.low is None or total.high is None:
        return f"×{value:.2f} the output tokens per second of before. One side has no interval: take it as a hint."
    bounds = f"(95 %: {total.low:.2f}–{total.high:.2f})"
    if total.low <= 1 <= total.high:
        return f"No difference shown: ×{value:.2f} {bounds}, and the interval includes 1."
    return f"×{value:.2f} the output tokens per second of before {bounds}."


def _detail(before: Level | None, after: Level | None, total: Figure, pairs: Sequence[LevelPair]) -> str:
    if total.value is None or before is None or after is None:
        return ""
    where = f"Best against best: before at {plural(before.concurrency, 'lane')}, after at {after.concurrency}."
    worse = [pair.concurrency for pair in pairs if pair.ratio.high is not None and pair.ratio.high < 1]
    noun = "lane" if worse == [1] else "lanes"
    return f"{where} Slower than before at {list_text(worse)} {noun}." if worse else where


def ratio_text(figure: Figure) -> str:
    """`×2.94 (2.81–3.08)`, the bounds being those of the 95 % interval."""
    value = figure.number
    if value is None:
        return "–"
    bounds = "" if figure.low is None or figure.high is None else f" ({figure.low:.2f}–{figure.high:.2f})"
    return f"×{value:.2f}{bounds}"
