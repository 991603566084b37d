"""`widelane doctor`: facts, probes and a quick sweep in, findings and a verdict out.

The order matters: probes first and one at a time, while nothing else runs; then the sweep, which loads the server.
"""

from __future__ import annotations

import platform
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from widelane.clock import Clock
from widelane.engines.engine import Engine, Gauges
from widelane.engines.server_facts import ServerFacts
from widelane.errors import CallError, UsageError
from widelane.figures import Figure, Finding, Origin, Severity, unknown
from widelane.lanes.lanes import Lanes
from widelane.lanes.retry import RetryPolicy
from widelane.measure.bursts import infer_slots
from widelane.measure.findings import build
from widelane.measure.findings.facts import findings_from, merged
from widelane.measure.findings.needs import USES, needs
from widelane.measure.findings.slots import limit_seen
from widelane.measure.findings.speculation import drafts_between
from widelane.measure.findings.sweep import NO_SWEEP
from widelane.measure.findings.unreachable import diagnose_unreachable, unreachable_report
from widelane.measure.findings.verdict import verdict
from widelane.measure.options import SweepOptions, quick_options
from widelane.measure.probes.catalogue import PROBES
from widelane.measure.probes.probe import Probe, ProbeBackend, ProbeContext, Spent
from widelane.measure.probes.run import Progress, run_probes
from widelane.measure.profile import DoctorReport, Limit, SweepReport
from widelane.measure.sweep import Progress as SweepProgress
from widelane.measure.sweep import sweep

__all__ = ["DoctorBackend", "DoctorOptions", "diagnose", "diagnose_unreachable", "unreachable_report"]

PROBE_WIDTH = 64
"""No probe has more calls in flight."""
COUNTING_SHARE = 0.4
"""Of the whole time, for counting slots that the server does not tell."""
PROBE_SHARE = 0.5
"""Of the time that is left then, where a sweep follows."""
SWEEP_LEFT_S = 8.0
"""With less time than this left, a sweep would only guess."""


class DoctorBackend(ProbeBackend, Protocol):
    """A backend that also knows its server's address."""

    @property
    def url(self) -> str:
        """The server's address, without a key."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What to look at, and for how long.

    Attributes:
        use: one of `chat`, `agents`, `batch`, `long`; None when nothing was declared.
        context_needed: tokens one call needs; wins over the use.
        quick_sweep: make the sweep; False leaves the limit unknown.
        sweep: its options; None takes levels around the server's slots.
        only, skip: names of probes or codes of findings; an empty `only` means all.
        intrusive: also run probes that can fail other users' requests or take long.
        seconds: bound on the whole diagnosis; the probes get at most half of it.
        model: model name to send; None takes the server's own.
    """

    use: str | None = "chat"
    context_needed: int | None = None
    quick_sweep: bool = True
    sweep: SweepOptions | None = None
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    intrusive: bool = False
    seconds: float = 48.0
    model: str | None = None

    def __post_init__(self) -> None:
        if self.use is not None and self.use not in USES:
            raise UsageError(f"The use is one of {', '.join(USES)}, not {self.use!r}.")
        if self.context_needed is not None and self.context_needed < 1:
            raise UsageError(f"A call needs at least one token of context, not {self.context_needed}.")
        if self.seconds <= 0:
            raise UsageError(f"A diagnosis needs time: {self.seconds:g} seconds are none.")
        known = {probe.name for probe in PROBES} | {code for probe in PROBES for code in probe.codes}
        for name in (*self.only, *self.skip):
            if name not in known:
                raise UsageError(f"There is no probe {name!r}. There are: {', '.join(sorted(known))}.")


async def diagnose(
    backend: DoctorBackend,
    engine: Engine,
    facts: ServerFacts,
    options: DoctorOptions,
    *,
    clock: Clock,
    rng: random.Random,
    progress: Progress | None = None,
) -> DoctorReport:
    """The report on one server that answers.

    Slots that the server does not tell are inferred first: the later steps are sized by them.

    Raises:
        CallError: the server went away before anything could be found out; later failures become `not-checked`.
    """
    start_ns = clock.now_ns()

    def left_s() -> float:
        return options.seconds - (clock.now_ns() - start_ns) / 1e9

    if facts.slots.value is None:
        counted = await _inferred_slots(backend, engine, facts, options.seconds * COUNTING_SHARE, clock, rng, progress)
        facts = replace(facts, slots=counted)
    before = await _gauges(engine)
    spent = Spent()
    async with Lanes(backend, width=PROBE_WIDTH, clock=clock, rng=rng, retry=RetryPolicy.none()) as lanes:
        context = _context(backend, lanes, engine, facts, options, clock, spent)
        share_s = left_s() * (PROBE_SHARE if options.quick_sweep else 1.0)
        probed = await run_probes(_chosen(options), context, seconds=share_s, progress=progress)
    report, why_not = await _quick_sweep(backend, engine, facts, options, left_s(), clock, rng, progress)
    drafts = drafts_between(before, await _gauges(engine))
    findings = merged(findings_from(facts, report, drafts, needs(options.use, options.context_needed)), probed)
    if why_not:
        findings = [_with_reason(finding, why_not) for finding in findings]
    limit, evidence = limit_seen(facts, report) if report else (Limit.UNKNOWN, why_not)
    return DoctorReport(
        server=backend.url,
        verdict=verdict(facts, report, findings),
        facts=facts,
        findings=tuple(findings),
        limit=limit,
        limit_evidence=evidence,
        levels=report.levels if report else (),
        knee=report.knee if report else None,
        made=_made(options, report, spent, clock, start_ns),
    )


def quick_levels(slots: Figure) -> tuple[int, ...]:
    """Levels that tell slots from other limits: within them, at them, and twice as many.

    At most five, at most 64 wide: a first look, not a sweep.
    """
    places = slots.number
    if places is None:
        return (1, 2, 4, 8, 16)
    if places >= 32:
        return (1, 4, 16, 64)
    held = int(places)
    return tuple(sorted({1, max(1, held // 2), held, held * 2, held * 4 if held == 1 else held}))


def _chosen(options: DoctorOptions) -> Sequence[Probe]:
    def named(probe: Probe, names: tuple[str, ...]) -> bool:
        return probe.name in names or any(code in names for code in probe.codes)

    asked = [probe for probe in PROBES if not options.only or named(probe, options.only)]
    return [probe for probe in asked if not named(probe, options.skip)]


def _context(
    backend: DoctorBackend,
    lanes: Lanes,
    engine: Engine,
    facts: ServerFacts,
    options: DoctorOptions,
    clock: Clock,
    spent: Spent,
) -> ProbeContext:
    model = options.model if options.model is not None else facts.model.value
    return ProbeContext(
        backend=backend,
        lanes=lanes,
        engine=engine,
        facts=facts,
        needs=needs(options.use, options.context_needed),
        clock=clock,
        model=model if isinstance(model, str) else None,
        use=options.use,
        intrusive=options.intrusive,
        spent=spent,
    )


async def _inferred_slots(
    backend: DoctorBackend,
    engine: Engine,
    facts: ServerFacts,
    seconds: float,
    clock: Clock,
    rng: random.Random,
    progress: Progress | None,
) -> Figure:
    """The slots by bursts, where no endpoint tells them."""
    if progress is not None:
        progress("counting slots: the server does not tell them")
    try:
        return await infer_slots(backend, engine, facts, clock=clock, rng=rng, seconds=seconds)
    except CallError as error:
        return unknown("slots", f"{facts.slots.reason}; counting them failed: {error.message}", Origin.INFERRED)


async def _gauges(engine: Engine) -> Gauges | None:
    try:
        return await engine.gauges()
    except CallError:
        return None


async def _quick_sweep(
    backend: DoctorBackend,
    engine: Engine,
    facts: ServerFacts,
    options: DoctorOptions,
    seconds: float,
    clock: Clock,
    rng: random.Random,
    progress: Progress | None,
) -> tuple[SweepReport | None, str]:
    """The sweep, or None and the reason why there is none."""
    if not options.quick_sweep:
        return None, "no sweep was asked for"
    if seconds < SWEEP_LEFT_S:
        return None, f"only {max(0.0, seconds):.0f} s were left for a sweep"
    chosen = options.sweep or quick_options(levels=quick_levels(facts.slots), seconds=seconds)
    try:
        report = await sweep(backend, engine, facts, chosen, clock=clock, rng=rng, progress=_sweep_words(progress))
    except CallError as error:
        return None, f"the sweep failed: {error.message}"
    return report, ""


def _sweep_words(progress: Progress | None) -> Callable[[SweepProgress], None] | None:
    if progress is None:
        return None

    told: tuple[int, int] | None = None

    def tell(now: SweepProgress) -> None:
        nonlocal told
        if (now.level, now.repeats) == told:
            return
        told = (now.level, now.repeats)
        rate = "" if now.tok_s is None else f", {now.tok_s:.0f} tok/s"
        progress(f"sweep: {now.level} calls at once{rate}")

    return tell


def _with_reason(finding: Finding, why_not: str) -> Finding:
    """A finding that only misses the sweep says why there was none."""
    if finding.severity is Severity.NOT_CHECKED and finding.title == NO_SWEEP:
        return build.not_checked(finding.code, why_not)
    return finding


def _made(
    options: DoctorOptions, report: SweepReport | None, spent: Spent, clock: Clock, start_ns: int
) -> Mapping[str, str]:
    """What replays and prices the diagnosis."""
    own = {
        "made_at_s": f"{clock.wall_s():.0f}",
        "python": platform.python_version(),
        "platform": platform.platform(),
        "use": options.use or "",
        "intrusive": str(options.intrusive).lower(),
        "took_s": f"{(clock.now_ns() - start_ns) / 1e9:.1f}",
        "probe_requests": str(spent.requests),
        "probe_prompt_tokens": str(spent.prompt_tokens),
        "probe_output_tokens": str(spent.output_tokens),
    }
    return {**(report.made if report else {}), **own}
