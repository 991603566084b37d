"""All findings that need no question to the server: from its facts, the quick sweep and its counters."""

from __future__ import annotations

from collections.abc import Iterable

from widelane.engines.server_facts import ServerFacts
from widelane.figures import Finding, Severity
from widelane.measure.findings import build, memory, slots, speculation, sweep
from widelane.measure.findings.needs import Needs
from widelane.measure.findings.speculation import Drafts
from widelane.measure.profile import Limit, SweepReport


def findings_from(facts: ServerFacts, report: SweepReport | None, drafts: Drafts | None, needs: Needs) -> list[Finding]:
    """One finding a code, good or bad; `slots-disagree` and `buffering-proxy` only when they are seen.

    Args:
        report: the quick sweep, None when none was made.
        drafts: the server's count of speculative tokens, None when it keeps none.
    """
    too_few = slots.too_few_slots(facts, report, needs)
    context = memory.small_context(facts, needs)
    full = report is not None and report.limit is Limit.KV_POOL
    found: list[Finding | None] = [
        too_few,
        slots.slots_disagree(facts, report),
        context,
        memory.kv_wider_than_needed(
            facts, memory_is_short=full or build.is_problem(too_few) or build.is_problem(context)
        ),
        memory.state_float32(facts),
        memory.shared_pool_overflow(facts),
        memory.partial_offload(facts),
        speculation.no_speculation(facts),
        speculation.harmful_speculation(facts, drafts),
        sweep.client_limited(report),
        sweep.impossible_figure(report),
        sweep.buffered_sweep(facts, report),
    ]
    return [finding for finding in found if finding is not None]


def merged(from_facts: Iterable[Finding], probed: Iterable[Finding]) -> list[Finding]:
    """One finding a code, the worst first.

    What a probe saw counts more than what the facts say, and any result more than `not-checked`.
    """
    best: dict[str, Finding] = {}
    for finding in (*from_facts, *probed):
        known = best.get(finding.code)
        if known is None or finding.severity is not Severity.NOT_CHECKED:
            best[finding.code] = finding
    return sorted(best.values(), key=lambda finding: build.RANK.index(finding.severity))
