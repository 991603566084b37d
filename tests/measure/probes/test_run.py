"""The runner: no probe can end the run, each code comes back, each reason is told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.measure.facts import facts
from widelane.clock import LoopClock
from widelane.errors import ServerFailed
from widelane.figures import Finding, Severity
from widelane.lanes.lanes import Lanes
from widelane.lanes.retry import RetryPolicy
from widelane.measure.findings import build
from widelane.measure.findings.needs import needs
from widelane.measure.probes.catalogue import PROBES
from widelane.measure.probes.probe import ProbeContext
from widelane.measure.probes.run import run_probes
from widelane.records import HttpReply
from widelane.testing.fake_engine import FakeEngine, FakeServer
from widelane.testing.virtual_time import run_virtual


class Stub:
    """A probe of two codes that does what a test says."""

    name, codes, seconds = "stub", ("a", "b"), 5.0

    def __init__(self, work: Callable[[], Awaitable[list[Finding]]], reason: str | None = None) -> None:
        self.work, self.reason = work, reason

    def applies(self, context: ProbeContext) -> str | None:
        return self.reason

    async def run(self, context: ProbeContext) -> list[Finding]:
        return await self.work()


class Silent(FakeServer):
    async def fetch(self, method: str, path: str, body: object = None, *, timeout_s: float = 10.0) -> HttpReply:
        return HttpReply(404, {}, b"{}")


def run(*probes: Stub, seconds: float = 60.0) -> tuple[list[Finding], list[str]]:
    """The findings, and what was told on the way."""
    told: list[str] = []

    async def main() -> list[Finding]:
        server = Silent(LoopClock(), slots=1, step_s=lambda _: 0.01)
        lanes = Lanes(server, width=1, clock=LoopClock(), rng=random.Random(0), retry=RetryPolicy.none())
        async with lanes:
            context = ProbeContext(
                backend=server,
                lanes=lanes,
                engine=FakeEngine(server),
                facts=facts(),
                needs=needs(None, None),
                clock=LoopClock(),
            )
            return await run_probes(probes, context, seconds=seconds, progress=told.append)

    return run_virtual(main), told


async def both() -> list[Finding]:
    return [build.healthy("a", "fine", ""), build.healthy("b", "fine", "")]


async def one() -> list[Finding]:
    return [build.healthy("a", "fine", "")]


async def crash() -> list[Finding]:
    raise ZeroDivisionError("no tokens")


async def refuse() -> list[Finding]:
    raise ServerFailed("HTTP 500 from /v1/chat/completions.")


async def hang() -> list[Finding]:
    await asyncio.sleep(1000)
    return []


def reasons(found: list[Finding]) -> set[str]:
    assert {finding.code for finding in found} == {"a", "b"}
    return {finding.evidence for finding in found if finding.severity is Severity.NOT_CHECKED}


def test_what_a_probe_found_is_handed_on() -> None:
    found, told = run(Stub(both))
    assert reasons(found) == set()
    assert told == ["probing: stub"]


def test_a_code_that_a_probe_forgot_is_not_checked() -> None:
    found, _ = run(Stub(one))
    assert [finding.severity for finding in found] == [Severity.OK, Severity.NOT_CHECKED]


def test_a_probes_own_fault_is_not_checked_and_the_next_probe_runs() -> None:
    found, told = run(Stub(crash), Stub(both))
    assert [finding.severity for finding in found] == [Severity.NOT_CHECKED] * 2 + [Severity.OK] * 2
    assert "ZeroDivisionError: no tokens" in found[0].evidence
    assert len(told) == 2


def test_a_failed_call_is_told_with_its_code() -> None:
    assert reasons(run(Stub(refuse))[0]) == {"server_failed: HTTP 500 from /v1/chat/completions."}


def test_a_probe_that_hangs_ends_at_its_own_bound() -> None:
    assert reasons(run(Stub(hang))[0]) == {"no result within 5 s"}


def test_a_probe_that_does_not_apply_says_why() -> None:
    assert reasons(run(Stub(both, "one slot"))[0]) == {"one slot"}


def test_probes_beyond_the_time_are_not_run() -> None:
    found, _ = run(Stub(hang), Stub(both), seconds=4.0)
    assert [finding.evidence for finding in found] == ["no result within 4 s"] * 2 + [
        "the 4 s for probes were used up before it"
    ] * 2


def test_every_probe_has_its_own_name_and_codes_and_a_bound() -> None:
    names = [probe.name for probe in PROBES]
    codes = [code for probe in PROBES for code in probe.codes]
    assert len(set(names)) == len(names)
    assert len(set(codes)) == len(codes)
    assert all(0 < probe.seconds <= 90 for probe in PROBES)
