"""Decode steps from a profile that `widelane sweep` saved, for a plan of the same server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from widelane.errors import UsageError
from widelane.measure.profile import Level, SweepReport, load_profile
from widelane.plan.measured_fit import MeasuredStep


def steps_of_profile(path: Path) -> Sequence[MeasuredStep]:
    """One step a level: the median time per output token, at the width that the server really decoded.

    Raises:
        UsageError: the file is no profile, its server drafts (a chunk is then no step), or no level can be used.
    """
    report = load_profile(path)
    if report.server.facts.speculation.value not in (None, False, "none"):
        raise UsageError(
            f"{path}: the server drafts, so its times per token are not step times; sweep it without drafts"
        )
    context = report.workload.prompt_tokens + report.workload.output_tokens / 2
    steps = [step for level in report.levels if (step := _step(level, report, context)) is not None]
    if not steps:
        raise UsageError(f"{path} holds no level with a time per output token that is the server's own")
    return steps


def _step(level: Level, report: SweepReport, context: float) -> MeasuredStep | None:
    step_s = level.tpot_s.p50.number
    if level.client.spoiled or level.failures or not step_s:
        return None
    slots = report.server.facts.slots.number
    together = level.decoding_together.number or level.concurrency
    batch = min(level.concurrency, int(together), int(slots or level.concurrency))
    return MeasuredStep(batch=max(1, batch), context_tokens=context, step_s=step_s)
