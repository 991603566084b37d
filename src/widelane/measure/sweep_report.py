"""The report of a sweep from what was kept. Pure: the same for a finished, a stopped and a resumed sweep."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from widelane.engines.server_facts import ServerFacts
from widelane.figures import Figure, Origin
from widelane.measure.kept import Kept
from widelane.measure.knee import find_knee
from widelane.measure.known import Known
from widelane.measure.level import level_row, with_series_doubts
from widelane.measure.level_plan import Ending
from widelane.measure.limit import Verdict, judge
from widelane.measure.options import SweepOptions
from widelane.measure.profile import Knee, Level, Limit, Server, SweepReport, Workload


def rows(kept: Kept, options: SweepOptions, facts: ServerFacts) -> list[Level]:
    """The levels measured so far, by rising width, finished or not."""
    alone = kept.start.first.alone_ttft_s if kept.start else None
    if kept.repeats.get(1):
        at_one = _row(kept, 1, Known(output_tokens=options.output_tokens)).ttft_s.p50.number
        alone = at_one if at_one is not None else alone
    known = Known(
        output_tokens=options.output_tokens,
        alone_ttft_s=alone,
        read_bytes=_read_bytes(facts),
        bandwidth_bytes_s=options.bandwidth_bytes_s,
    )
    return with_series_doubts([_row(kept, width, known) for width in sorted(kept.repeats)], alone)


def _row(kept: Kept, width: int, known: Known) -> Level:
    end = kept.ends.get(width)
    return level_row(width, kept.repeats[width], known, tail=end.tail if end else ())


def build_report(
    kept: Kept,
    options: SweepOptions,
    facts: ServerFacts,
    *,
    url: str,
    made: Mapping[str, str],
    finished: bool,
    missing: Sequence[str] = (),
) -> SweepReport:
    """The document. `missing` says, in sentences, what was asked for and is not in it."""
    levels = rows(kept, options, facts)
    prompt, output = _lengths(kept, options)
    verdict = judge(levels, output_tokens=output, context_tokens=prompt + output / 2, facts=facts)
    return SweepReport(
        server=Server(url=url, facts=facts),
        workload=Workload(
            prompt_tokens=round(prompt),
            output_tokens=options.output_tokens,
            endpoint=kept.start.first.endpoint if kept.start else options.endpoint,
            seed=kept.start.seed if kept.start else options.seed or 0,
        ),
        levels=levels,
        knee=_knee(levels, verdict),
        limit=verdict.limit,
        limit_evidence=verdict.evidence,
        complete=finished,
        made=made,
        notes=[*missing, *_notes(kept, options)],
        timeline={str(width): end.spans for width, end in sorted(kept.ends.items()) if end.spans},
    )


def _knee(levels: Sequence[Level], verdict: Verdict) -> Knee | None:
    """The knee; none where the client spoiled the figures."""
    if verdict.limit is Limit.CLIENT:
        return None
    knee = find_knee([level for level in levels if not level.client.spoiled], verdict.slots)
    if knee is None or verdict.limit is not Limit.NOT_REACHED:
        return knee
    width = knee.concurrency
    at_least = Figure(
        width.value, width.unit, Origin.MEASURED, low=width.low,
        reason="at least: throughput still rose at the widest level measured",
    )  # fmt: skip
    return replace(knee, concurrency=at_least)


def _lengths(kept: Kept, options: SweepOptions) -> tuple[float, float]:
    """Median prompt and output tokens of a whole call, as the server counted them, else as asked for."""
    calls = [
        call
        for repeats in kept.repeats.values()
        for repeat in repeats
        for call in repeat.calls
        if call.usable and call.full_length
    ]
    prompts = [call.prompt_tokens for call in calls if call.prompt_tokens]
    outputs = [call.output_tokens for call in calls if call.output_tokens]
    return (
        statistics.median(prompts) if prompts else float(options.prompt_tokens),
        statistics.median(outputs) if outputs else float(options.output_tokens),
    )


def _notes(kept: Kept, options: SweepOptions) -> list[str]:
    notes = []
    if kept.start is not None and not kept.start.first.fields_accepted:
        notes.append(
            "The server refused the fields that fix the output length and avoid its prefix cache: calls end when the "
            "model wants, and tokens are counted as they came."
        )
    late = [str(width) for width, end in sorted(kept.ends.items()) if end.ending is Ending.TIME]
    if late:
        notes.append(
            f"At concurrency {', '.join(late)} time was up before the interval was within ±{options.precision:.0%}: "
            "give the sweep more time for a narrower one."
        )
    failing = [str(width) for width, end in sorted(kept.ends.items()) if end.ending is Ending.FAILING]
    if failing:
        notes.append(f"At concurrency {', '.join(failing)} a whole turn of calls failed, so the level was ended early.")
    return notes


def _read_bytes(facts: ServerFacts) -> float | None:
    """Bytes that every decode step reads. Of a mixture of experts only a part of the weights: then it must be told."""
    told = facts.extra.get("read_bytes_per_step")
    if told is not None:
        return told.number
    experts = facts.extra.get("experts")
    return None if experts is not None and experts.value else facts.weights_bytes.number
