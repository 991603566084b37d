"""The doctor on the real embedded server."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.measure.probes.recorded import text_of
from widelane.clock import SystemClock
from widelane.engines.detect import detect
from widelane.engines.embedded import EmbeddedServer
from widelane.engines.engine import Hints
from widelane.figures import Finding, Origin, Severity
from widelane.measure.doctor import DoctorOptions, diagnose
from widelane.measure.profile import DoctorReport, Limit
from widelane.wire.client import HttpBackend

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]
pytest.importorskip("xllamacpp", reason="the extra `embedded` is not installed")


async def doctor(server: EmbeddedServer, options: DoctorOptions) -> DoctorReport:
    async with HttpBackend(server.url) as backend:
        engine = await detect(backend.fetch)
        facts = await engine.facts(Hints(launch=server.launch_line))
        return await diagnose(backend, engine, facts, options, clock=SystemClock(), rng=random.Random(0))


def by_code(report: DoctorReport) -> dict[str, Finding]:
    return {finding.code: finding for finding in report.findings}


async def test_a_default_start_has_too_few_slots_and_shares_its_pool(tmp_path: Path) -> None:
    async with EmbeddedServer(log_dir=tmp_path, threads=1) as server:
        report = await doctor(server, DoctorOptions())
    assert (report.facts.slots.value, report.facts.slots.origin) == (4, Origin.READ)
    assert report.limit is Limit.SLOTS
    found = by_code(report)
    few = found["too-few-slots"]
    assert few.severity in (Severity.WARNING, Severity.ERROR)
    assert few.fix is not None
    assert few.fix.flag.startswith("-np ")
    assert " -c " in few.fix.flag
    assert found["shared-pool-overflow"].severity is Severity.WARNING
    for code in ("prompt-truncated", "max-tokens-ignored", "schema-not-enforced", "cancel-not-freeing"):
        assert found[code].severity is Severity.OK, found[code]
    assert float(report.made["took_s"]) < 60


async def test_a_template_that_opens_a_thought_loses_the_answers_of_a_model_that_does_not_think(tmp_path: Path) -> None:
    template = json.loads(text_of("llama_cpp/template_qwen3_5/props.json"))["chat_template"]
    async with EmbeddedServer(log_dir=tmp_path, threads=1, chat_template=template) as server:
        report = await doctor(
            server, DoctorOptions(quick_sweep=False, only=("plain-answer", "reasoning-leak", "schema"))
        )
    found = by_code(report)
    assert found["reasoning-swallowed"].severity is Severity.ERROR
    assert found["schema-not-enforced"].severity is Severity.ERROR
    assert found["reasoning-leak"].severity is Severity.OK
    assert report.verdict.endswith("Mend first: reasoning-swallowed, schema-not-enforced.")


async def test_a_small_shared_pool_fails_every_call_when_it_is_filled_on_request(tmp_path: Path) -> None:
    async with EmbeddedServer(log_dir=tmp_path, threads=1, context=1024) as server:
        options = DoctorOptions(quick_sweep=False, intrusive=True, only=("shared-pool-overflow",), seconds=120)
        report = await doctor(server, options)
    finding = by_code(report)["shared-pool-overflow"]
    assert finding.severity is Severity.ERROR
    assert "4 pool_overflow" in finding.evidence
