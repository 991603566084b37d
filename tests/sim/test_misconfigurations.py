"""The doctor finds each planted misconfiguration, and nothing on a healthy server."""

import random
from typing import Any

import pytest

from widelane.clock import LoopClock
from widelane.engines.detect import detect
from widelane.errors import UsageError
from widelane.figures import Finding, Severity
from widelane.measure.doctor import DoctorOptions, diagnose
from widelane.measure.probes.catalogue import PROBES
from widelane.measure.profile import load_profile
from widelane.sim.misconfigurations import MISCONFIGURATIONS
from widelane.sim.open_server import assemble
from widelane.sim.spec import parse_sim
from widelane.testing.virtual_time import run_virtual

HEALTHY = {
    "vllm": "sim:gb10/qwen3.6-27b/vllm?slots=64&state_dtype=float16&kv_dtype=fp8&draft_depth=2&acceptance=0.84,0.6",
    "llama.cpp": "sim:gb10/qwen3-8b/llama.cpp?slots=64&quant=q4_k_m&context=8192&kv_dtype=q8_0",
}
NEEDS_SWEEP = {"too-few-slots", "slots-disagree"}
PROBED = {code for probe in PROBES for code in probe.codes}
PLANTED = [
    (engine, code)
    for engine in HEALTHY
    for code, one in MISCONFIGURATIONS.items()
    if one.engine in (None, engine) and not (engine == "llama.cpp" and code == "no-speculation")
]
"""llama.cpp does not tell that a model ships a draft head, so its silence about drafting is a note only."""


async def findings(text: str, **options: Any) -> list[Finding]:
    assembled = assemble(parse_sim(text), load_profile=load_profile)
    clock = LoopClock()
    async with assembled.server(clock=clock) as server:
        engine = await detect(server.fetch, assembled.hints)
        facts = await engine.facts(assembled.hints)
        chosen = DoctorOptions(seconds=600.0, **options)
        report = await diagnose(server, engine, facts, chosen, clock=clock, rng=random.Random(0))
        return list(report.findings)


def problems(found: list[Finding]) -> set[str]:
    return {finding.code for finding in found if finding.severity in (Severity.ERROR, Severity.WARNING)}


@pytest.mark.parametrize("engine", HEALTHY)
def test_nothing_is_found_on_a_healthy_server(engine: str) -> None:
    assert problems(run_virtual(lambda: findings(HEALTHY[engine]))) == set()


@pytest.mark.parametrize(("engine", "code"), PLANTED)
def test_what_is_planted_is_found(engine: str, code: str) -> None:
    """With the probes of that code alone, and a sweep only where it is needed: whole runs take their time."""
    text = f"{HEALTHY[engine]}&misconfigured={code}"
    only = (code,) if code in PROBED else ("prompt-truncated",)
    sweep = code in NEEDS_SWEEP
    speculation = code == "harmful-speculation"
    if speculation:
        only = ("cancel-not-freeing", "max-tokens-ignored")  # some text, so that drafts are made
    found = run_virtual(lambda: findings(text, quick_sweep=sweep or speculation, only=only))
    mine = [finding for finding in found if finding.code == code]
    assert mine, [finding.code for finding in found]
    assert mine[0].severity in (Severity.ERROR, Severity.WARNING, Severity.INFO), mine[0]


def test_names_are_checked() -> None:
    with pytest.raises(UsageError, match="no misconfiguration 'gremlins'"):
        assemble(parse_sim(f"{HEALTHY['vllm']}&misconfigured=gremlins"), load_profile=load_profile)
    with pytest.raises(UsageError, match=r"of llama\.cpp"):
        assemble(parse_sim(f"{HEALTHY['vllm']}&misconfigured=partial-offload"), load_profile=load_profile)
    with pytest.raises(UsageError, match="another slots"):
        assemble(
            parse_sim(f"{HEALTHY['llama.cpp']}&misconfigured=too-few-slots,shared-pool-overflow"),
            load_profile=load_profile,
        )
