"""The whole doctor on a server whose truth is known, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.measure.facts import facts
from widelane.clock import LoopClock
from widelane.engines.server_facts import ServerFacts
from widelane.errors import ConnectionLost, UsageError
from widelane.figures import Figure, Finding, Origin, Severity, unknown
from widelane.measure.doctor import DoctorOptions, diagnose, quick_levels
from widelane.measure.options import SweepOptions
from widelane.measure.probes.catalogue import PROBES
from widelane.measure.profile import DoctorReport, Limit
from widelane.records import HttpReply
from widelane.testing.fake_engine import FakeEngine, FakeServer
from widelane.testing.virtual_time import run_virtual

STEP_S = 0.010
SWEEP = SweepOptions(levels=(1, 2, 4, 8, 16), output_tokens=24, prompt_tokens=8, seconds=300.0, min_repeats=2, seed=1)


class Server(FakeServer):
    """The fake server with an address, and plain requests answered as a healthy server answers them."""

    url = "http://fake/v1"
    broken = False

    async def fetch(self, method: str, path: str, body: Any = None, *, timeout_s: float = 10.0) -> HttpReply:
        if self.broken:
            raise ConnectionLost("The connection was reset.")
        if path != "/v1/chat/completions":
            return HttpReply(404, {}, b'{"error": "not here"}')
        content = '{"name": "Ada", "age": 36}' if "response_format" in body else "Paris."
        if len(str(body["messages"])) > 4 * 4096:
            return _json({"error": {"message": "exceeds the available context size"}}, 400)
        choice = {"message": {"content": content}, "finish_reason": "stop"}
        if body["stream"]:
            event = {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": "stop"}]}
            sent = b"data: " + msgspec.json.encode(event) + b"\n\ndata: [DONE]\n\n"
            return HttpReply(200, {"content-type": "text/event-stream"}, sent)
        usage = {"prompt_tokens": 12 + 80 * ("tools" in body), "completion_tokens": 3}
        return _json({"choices": [choice] * body.get("n", 1), "usage": usage}, 200)


def _json(body: Mapping[str, Any], status: int) -> HttpReply:
    return HttpReply(status, {"content-type": "application/json"}, msgspec.json.encode(body))


def server(slots: int, *, each_s: float = 0.0005) -> Server:
    """Steps of 10 ms plus `each_s` a call."""
    return Server(LoopClock(), slots=slots, step_s=lambda batch: STEP_S + each_s * batch, prefill_s_per_token=0.0002)


def known(slots: Figure | int) -> ServerFacts:
    figure = slots if isinstance(slots, Figure) else Figure(slots, "slots", Origin.READ)
    return facts("llama.cpp", slots=figure, context_per_slot=4096, unified_pool=False, pool_tokens=16384, model="fake")


def doctor(
    fake: Server, told: ServerFacts, options: DoctorOptions | None = None, *, tells: bool = True
) -> DoctorReport:
    chosen = options or DoctorOptions(sweep=SWEEP, seconds=600.0)

    async def main() -> DoctorReport:
        engine = FakeEngine(fake, tells=tells)
        return await diagnose(fake, engine, told, chosen, clock=LoopClock(), rng=random.Random(0))

    return run_virtual(main)


def by_code(report: DoctorReport) -> dict[str, Finding]:
    found = {finding.code: finding for finding in report.findings}
    assert len(found) == len(report.findings), "each code comes once"
    return found


def test_four_slots_on_a_fast_machine_are_found_with_the_flag_and_the_gain() -> None:
    report = doctor(server(4), known(4))
    finding = by_code(report)["too-few-slots"]
    assert report.limit is Limit.SLOTS
    assert finding.severity is Severity.ERROR
    assert finding.fix is not None
    assert finding.fix.flag == "-np 32 -c 131072"
    assert finding.gain is not None
    assert finding.gain.number is not None
    # A step of 32 calls takes 10 + 16 ms: 1,231 tok/s were there no prefill; each call's 8-token prompt costs some.
    assert 900 < finding.gain.number < 1231
    assert report.verdict.startswith("This server decodes 4 requests at a time; your 5th waits.")
    assert [row.concurrency for row in report.levels] == [1, 2, 4, 8, 16]


def test_a_healthy_server_is_reported_as_healthy() -> None:
    found = by_code(doctor(server(32), known(32)))
    healthy = {code for code, finding in found.items() if finding.severity is Severity.OK}
    assert healthy >= {
        "enough-slots", "small-context", "shared-pool-overflow", "client-limited", "impossible-figure",
        "reasoning-swallowed", "template-wrong", "schema-not-enforced", "prompt-truncated", "max-tokens-ignored",
        "buffering-proxy", "error-in-stream", "cancel-not-freeing", "n-ignored",
    }  # fmt: skip


def test_slots_that_are_not_told_are_inferred_and_stand_in_the_facts() -> None:
    report = doctor(server(6), known(unknown("slots", "the endpoints are off")), tells=False)
    assert report.facts.slots.value == 6
    assert report.facts.slots.origin is Origin.INFERRED
    assert by_code(report)["cancel-not-freeing"].severity is Severity.OK
    assert "inferred" in by_code(report)["cancel-not-freeing"].title


class Clinging(Server):
    """A server that goes on with dropped streams for a minute."""

    async def complete(self, request: Any, observe: Any = None) -> Any:
        going_on = asyncio.ensure_future(super().complete(request, observe))
        self.kept.append(going_on)
        return await asyncio.shield(going_on)

    kept: list[Any]


def test_a_dropped_stream_that_keeps_its_slot_is_found_with_and_without_gauges() -> None:
    for tells in (True, False):
        fake = Clinging(LoopClock(), slots=2, step_s=lambda batch: STEP_S, prefill_s_per_token=0.0)
        fake.kept = []
        options = DoctorOptions(quick_sweep=False, only=("cancel",), seconds=600.0)
        finding = by_code(doctor(fake, known(2), options, tells=tells))["cancel-not-freeing"]
        assert finding.severity is Severity.ERROR


def test_every_probe_fails_by_itself_and_none_ends_the_run() -> None:
    fake = server(4)
    fake.broken = True
    found = by_code(doctor(fake, known(4)))
    assert found["reasoning-swallowed"].severity is Severity.NOT_CHECKED
    assert found["reasoning-swallowed"].evidence == "connection_lost: The connection was reset."
    assert found["too-few-slots"].severity is Severity.ERROR


def test_every_code_of_every_probe_comes_back() -> None:
    codes = {code for probe in PROBES for code in probe.codes}
    assert codes <= set(by_code(doctor(server(4), known(4))))


def test_a_sweep_that_was_not_asked_for_is_named_as_the_reason() -> None:
    report = doctor(server(4), known(4), DoctorOptions(quick_sweep=False, seconds=600.0))
    assert report.limit is Limit.UNKNOWN
    assert report.levels == ()
    assert by_code(report)["client-limited"].evidence == "no sweep was asked for"
    assert "was not measured" in report.verdict


def test_probes_stop_at_their_share_of_the_time_and_say_so() -> None:
    slow = Server(LoopClock(), slots=4, step_s=lambda batch: 1.0, prefill_s_per_token=0.0)
    report = doctor(slow, known(4), DoctorOptions(quick_sweep=False, seconds=20.0))
    unchecked = [finding.evidence for finding in report.findings if finding.severity is Severity.NOT_CHECKED]
    assert any("for probes were used up" in why or "no result within" in why for why in unchecked)
    assert float(report.made["took_s"]) < 22


def test_only_and_skip_choose_probes_by_name_or_code() -> None:
    options = DoctorOptions(quick_sweep=False, only=("n-ignored",))
    assert "n-ignored" in by_code(doctor(server(4), known(4), options))
    assert "schema-not-enforced" not in by_code(doctor(server(4), known(4), options))
    options = DoctorOptions(quick_sweep=False, skip=("schema",))
    assert "schema-not-enforced" not in by_code(doctor(server(4), known(4), options))


@pytest.mark.parametrize(
    "wrong", [{"use": "games"}, {"context_needed": 0}, {"seconds": 0}, {"only": ("telepathy",)}, {"skip": ("nothing",)}]
)
def test_wrong_options_are_refused_before_anything_is_asked(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        DoctorOptions(**wrong)


@pytest.mark.parametrize(
    ("slots", "levels"),
    [(1, (1, 2, 4)), (4, (1, 2, 4, 8)), (6, (1, 3, 6, 12)), (16, (1, 8, 16, 32)), (256, (1, 4, 16, 64))],
)
def test_the_quick_levels_lie_within_at_and_beyond_the_slots(slots: int, levels: tuple[int, ...]) -> None:
    assert quick_levels(Figure(slots, "slots", Origin.READ)) == levels


def test_unknown_slots_take_levels_that_find_them() -> None:
    assert quick_levels(unknown("slots", "not told")) == (1, 2, 4, 8, 16)


def test_the_document_says_what_the_probes_cost() -> None:
    made = doctor(server(4), known(4)).made
    assert int(made["probe_requests"]) > 10
    assert int(made["probe_output_tokens"]) > 0
