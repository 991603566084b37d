"""Runs the probes one after another, inside a bound on their time, so that none can end the run.

Each probe's own failure becomes `not-checked` with the reason, for each of its codes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from widelane.errors import CallError
from widelane.figures import Finding
from widelane.measure.findings import build
from widelane.measure.probes.probe import Probe, ProbeContext

Progress = Callable[[str], None]


async def run_probes(
    probes: Sequence[Probe], context: ProbeContext, *, seconds: float, progress: Progress | None = None
) -> list[Finding]:
    """The findings of all probes; at least one for each code of each.

    They run one at a time: two at once would change each other's timing and fill each other's slots.
    """
    start_ns = context.clock.now_ns()
    findings: list[Finding] = []
    for probe in probes:
        left_s = seconds - context.seconds_since(start_ns)
        if progress is not None:
            progress(f"probing: {probe.name}")
        if left_s <= 0:
            findings += _unchecked(probe, f"the {seconds:.0f} s for probes were used up before it")
            continue
        findings += _complete(probe, await _run_one(probe, context, min(probe.seconds, left_s)))
    return findings


async def _run_one(probe: Probe, context: ProbeContext, limit_s: float) -> list[Finding]:
    try:
        reason = probe.applies(context)
        if reason is not None:
            return _unchecked(probe, reason)
        async with asyncio.timeout(limit_s):
            return await probe.run(context)
    except TimeoutError:
        return _unchecked(probe, f"no result within {limit_s:.0f} s")
    except CallError as error:
        return _unchecked(probe, f"{error.code}: {error.message}")
    except Exception as error:  # noqa: BLE001 - a probe's own fault must not cost the user the rest of the report
        return _unchecked(probe, f"the probe itself failed ({type(error).__name__}: {error})")


def _complete(probe: Probe, found: Iterable[Finding]) -> list[Finding]:
    """What was found, and `not-checked` for each code that the probe did not come back to."""
    findings = list(found)
    missing = [code for code in probe.codes if code not in {finding.code for finding in findings}]
    return findings + [build.not_checked(code, "the probe gave no result") for code in missing]


def _unchecked(probe: Probe, why: str) -> list[Finding]:
    return [build.not_checked(code, why) for code in probe.codes]
