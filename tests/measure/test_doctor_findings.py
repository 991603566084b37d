"""What facts alone say: context, KV and state types, the shared pool, speculation; and a server that is not there."""

from __future__ import annotations

import pytest

from tests.measure.facts import facts, read
from tests.measure.levels import level, sweep_report
from tests.measure.probes.recorded import text_of
from widelane import errors
from widelane.engines.engine import Gauges
from widelane.engines.llama_cpp import LlamaCpp
from widelane.engines.vllm import Vllm
from widelane.figures import Figure, Finding, Origin, Severity, unknown
from widelane.measure.findings import memory, speculation, sweep
from widelane.measure.findings.build import error, healthy, not_checked, warning
from widelane.measure.findings.facts import findings_from, merged
from widelane.measure.findings.needs import USES, needs
from widelane.measure.findings.speculation import Drafts, drafts_between
from widelane.measure.findings.unreachable import diagnose_unreachable, unreachable_report
from widelane.measure.profile import Limit
from widelane.records import Fetch, HttpReply
from widelane.report.json import to_json

CHAT = needs("chat", None)


# --- context


def test_a_context_is_judged_by_the_declared_use() -> None:
    server = facts(slots=4, context_per_slot=8192)
    assert memory.small_context(server, CHAT).severity is Severity.OK
    small = memory.small_context(server, needs("agents", None))
    assert (small.code, small.severity) == ("small-context", Severity.WARNING)
    assert "32,768" in small.evidence
    assert small.fix is not None
    assert memory.small_context(server, needs(None, None)).severity is Severity.NOT_CHECKED


def test_a_stated_context_wins_over_the_use() -> None:
    server = facts(slots=4, context_per_slot=8192)
    assert memory.small_context(server, needs("agents", 6_000)).severity is Severity.OK
    assert memory.small_context(server, needs("chat", 9_000)).severity is Severity.WARNING


def test_no_flag_is_advised_beyond_what_the_model_was_trained_for() -> None:
    finding = memory.small_context(facts(slots=4, context_per_slot=8192, context_trained=8192), needs("long", None))
    assert finding.severity is Severity.WARNING
    assert finding.fix is None
    assert "trained for 8,192" in finding.evidence


def test_every_use_has_a_need() -> None:
    assert set(USES) == {"chat", "agents", "batch", "long"}
    assert all(use.context_tokens > 0 and use.width > 0 for use in USES.values())


# --- KV type


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        ("f16", Severity.INFO),
        ("auto", Severity.INFO),
        ("bfloat16", Severity.INFO),
        ("float32", Severity.INFO),
        ("f16/q8_0", Severity.INFO),
        ("q8_0", Severity.OK),
        ("q8_0/q4_0", Severity.OK),
        ("fp8_e4m3", Severity.OK),
        ("strange", Severity.NOT_CHECKED),
    ],
)
def test_kv_types_are_wide_or_narrow(kind: str, severity: Severity) -> None:
    assert memory.kv_wider_than_needed(facts(kv_dtype=kind), memory_is_short=False).severity is severity


def test_a_wide_kv_cache_is_a_warning_only_where_memory_is_short() -> None:
    finding = memory.kv_wider_than_needed(facts(kv_dtype="f16"), memory_is_short=True)
    assert finding.severity is Severity.WARNING
    assert finding.gain is not None
    # 2 bytes against q8_0's 34 bytes for 32 values
    assert finding.gain.value == pytest.approx(1.88, abs=0.01)
    assert finding.fix is not None
    assert "-ctk q8_0" in finding.fix.flag


def test_an_unknown_kv_type_is_not_checked_with_the_servers_reason() -> None:
    finding = memory.kv_wider_than_needed(facts(), memory_is_short=True)
    assert finding.severity is Severity.NOT_CHECKED
    assert finding.title == "not stated in this test"


# --- recurrent state


def metrics_alone(name: str) -> Fetch:
    """A server that answers nothing but a recorded `/metrics`."""
    body = text_of(name).encode()

    async def fetch(method: str, path: str, body_sent: object = None, *, timeout_s: float = 10.0) -> HttpReply:
        if path == "/metrics":
            return HttpReply(200, {"content-type": "text/plain"}, body)
        return HttpReply(404, {}, b"{}")

    return fetch


async def recorded_vllm_state(name: str) -> Finding:
    """The finding for a recorded vLLM's metrics, through its adapter."""
    return memory.state_float32(await Vllm(metrics_alone(f"vllm/hybrid_pool/{name}.txt")).facts())


@pytest.mark.parametrize("name", ["metrics_next_ssm32", "metrics_q35_default", "metrics_q35_m16", "metrics_next_m32"])
async def test_recorded_float32_states_are_found(name: str) -> None:
    finding = await recorded_vllm_state(name)
    assert (finding.code, finding.severity) == ("state-float32", Severity.WARNING)
    assert "--mamba-cache-dtype alone does not change it" in finding.evidence
    assert finding.fix is not None
    assert finding.fix.flag == "--mamba-ssm-cache-dtype float16"


@pytest.mark.parametrize("name", ["metrics_next_auto", "metrics_next_m16"])
async def test_recorded_other_states_are_not_called_float32(name: str) -> None:
    assert (await recorded_vllm_state(name)).severity in (Severity.OK, Severity.NOT_CHECKED)


def test_a_state_left_to_the_checkpoint_is_float32_in_the_families_that_name_it() -> None:
    known = memory.state_float32(facts("vllm", state_dtype="auto", model="Qwen3.5-27B"))
    assert known.severity is Severity.WARNING
    assert "inferred" in known.evidence
    assert memory.state_float32(facts("vllm", state_dtype="auto", model="Other")).severity is Severity.NOT_CHECKED
    assert memory.state_float32(facts("vllm", state_dtype="float16")).severity is Severity.OK
    assert memory.state_float32(facts("llama.cpp", state_dtype="f32")).severity is Severity.INFO


def test_a_model_without_a_recurrent_state_is_not_checked() -> None:
    dense = facts("vllm", state_dtype=unknown("", "the model keeps no recurrent state"))
    assert memory.state_float32(dense).title == "the model keeps no recurrent state"


# --- the shared pool


def test_slots_that_together_may_outgrow_a_shared_pool_are_a_warning() -> None:
    shared = facts(slots=4, context_per_slot=1024, pool_tokens=1024, unified_pool=True)
    finding = memory.shared_pool_overflow(shared)
    assert finding.severity is Severity.WARNING
    assert "256 tokens each" in finding.evidence
    assert finding.fix is not None
    assert finding.fix.flag == "-np 4 -c 4096 --no-kv-unified"


@pytest.mark.parametrize(
    "known",
    [
        {"unified_pool": False, "slots": 4, "context_per_slot": 2048},
        {"unified_pool": True, "slots": 1, "context_per_slot": 2048},
        {"unified_pool": True, "slots": 4, "context_per_slot": 2048, "pool_tokens": 8192},
    ],
)
def test_pools_that_cannot_fail_calls_are_healthy(known: dict[str, object]) -> None:
    assert memory.shared_pool_overflow(facts(**known)).severity is Severity.OK


def test_an_unknown_pool_is_not_checked() -> None:
    assert memory.shared_pool_overflow(facts(slots=4)).severity is Severity.NOT_CHECKED


# --- offload


@pytest.mark.parametrize(
    ("extra", "severity"),
    [
        ({"share_on_gpu": read(0.6)}, Severity.WARNING),
        ({"share_on_gpu": read(1.0)}, Severity.OK),
        ({"layers_on_gpu": read(20), "layers": read(40)}, Severity.WARNING),
        ({"layers_on_gpu": read(0), "layers": read(40)}, Severity.INFO),
        ({}, Severity.NOT_CHECKED),
    ],
)
def test_layers_left_on_the_cpu_are_seen_where_the_server_tells(extra: dict[str, Figure], severity: Severity) -> None:
    assert memory.partial_offload(facts("ollama", extra=extra)).severity is severity


# --- speculation


async def recorded_drafts(engine: type[Vllm] | type[LlamaCpp], name: str) -> Drafts:
    """What a server's recorded metrics count, through its adapter."""
    drafts = drafts_between(None, await engine(metrics_alone(name)).gauges())
    assert drafts is not None
    return drafts


async def test_recorded_drafts_that_were_thrown_away_are_harmful() -> None:
    drafts = await recorded_drafts(Vllm, "vllm/preempt_spec/metrics_after.txt")
    assert (drafts.drafted, drafts.accepted) == (701, 6)
    assert drafts.per_position == pytest.approx((2 / 234,) * 3)
    finding = speculation.harmful_speculation(facts("vllm", speculation=True), drafts)
    assert (finding.code, finding.severity) == ("harmful-speculation", Severity.WARNING)
    assert "6 of 701" in finding.evidence
    assert finding.fix is not None


async def test_recorded_drafts_that_were_kept_are_healthy() -> None:
    drafts = await recorded_drafts(LlamaCpp, "llama_cpp/spec_draft/metrics_idle.txt")
    assert (drafts.drafted, drafts.accepted) == (24, 24)
    assert drafts.per_position == (1.0, 1.0, 1.0, 1.0)
    assert speculation.harmful_speculation(facts(speculation="draft-simple"), drafts).severity is Severity.OK


def test_a_draft_deeper_than_it_is_kept_is_noted_with_the_useful_depth() -> None:
    drafts = Drafts(400, 240, per_position=(0.9, 0.8, 0.6, 0.01))
    finding = speculation.harmful_speculation(facts(speculation=True), drafts)
    assert finding.severity is Severity.INFO
    assert "beyond position 3" in finding.title


def test_too_few_drafts_say_nothing() -> None:
    on = facts(speculation=True)
    assert speculation.harmful_speculation(on, Drafts(5, 0)).severity is Severity.NOT_CHECKED
    assert speculation.harmful_speculation(on, None).severity is Severity.NOT_CHECKED
    assert speculation.harmful_speculation(facts(speculation=False), None).title == "speculative decoding is off"


def test_speculation_that_is_off_is_a_warning_only_where_the_model_ships_a_head() -> None:
    assert speculation.no_speculation(facts(speculation=False)).severity is Severity.INFO
    with_head = facts("vllm", speculation=False, extra={"draft_head": read("mtp")})
    assert speculation.no_speculation(with_head).severity is Severity.WARNING
    assert speculation.no_speculation(facts(speculation="draft-simple")).severity is Severity.OK
    assert speculation.no_speculation(facts()).severity is Severity.NOT_CHECKED


def test_drafts_of_the_run_count_before_those_of_the_servers_life() -> None:
    before = Gauges(drafted_total=100.0, accepted_total=90.0, drafts_total=50.0, accepted_per_position=(50.0, 40.0))
    after = Gauges(drafted_total=300.0, accepted_total=100.0, drafts_total=150.0, accepted_per_position=(60.0, 40.0))
    assert drafts_between(before, after) == Drafts(200.0, 10.0, (0.1, 0.0), "during this run")
    assert drafts_between(after, after) == Drafts(300.0, 100.0, (0.4, 40 / 150), "since the server started")
    assert drafts_between(before, Gauges()) is None


# --- the sweep's own state


def test_a_client_that_kept_up_is_healthy_and_one_that_did_not_an_error() -> None:
    kept_up = sweep_report([level(1, 10), level(4, 30)], Limit.SLOTS)
    spoiled = sweep_report([level(1, 10), level(4, 30, spoiled=True)], Limit.CLIENT)
    assert sweep.client_limited(kept_up).severity is Severity.OK
    finding = sweep.client_limited(spoiled)
    assert (finding.code, finding.severity) == ("client-limited", Severity.ERROR)
    assert sweep.client_limited(None).severity is Severity.NOT_CHECKED


def test_impossible_rows_are_told_with_their_reasons() -> None:
    flagged = level(4, 30, flags=("TTFT is longer than the whole call.",), codes=("impossible-figure",))
    finding = sweep.impossible_figure(sweep_report([level(1, 10), flagged], Limit.SLOTS))
    assert (finding.code, finding.severity) == ("impossible-figure", Severity.WARNING)
    assert finding.evidence == "At 4 calls: TTFT is longer than the whole call."
    assert sweep.impossible_figure(sweep_report([level(1, 10)], Limit.SLOTS)).severity is Severity.OK


def test_buffering_seen_in_the_sweep_is_reported_and_its_absence_is_silent() -> None:
    held = sweep_report([level(1, 10, codes=("buffering-proxy",))], Limit.UNKNOWN)
    finding = sweep.buffered_sweep(facts(), held)
    assert finding is not None
    assert finding.code == "buffering-proxy"
    assert sweep.buffered_sweep(facts(), sweep_report([level(1, 10)], Limit.SLOTS)) is None


# --- together


def test_each_code_comes_once_the_probe_before_the_facts_and_anything_before_not_checked() -> None:
    by_facts = [warning("a", "facts", ""), healthy("b", "facts", ""), not_checked("c", "why")]
    probed = [error("a", "probe", ""), not_checked("b", "why"), healthy("c", "probe", "")]
    found = merged(by_facts, probed)
    assert [(finding.code, finding.title) for finding in found] == [("a", "probe"), ("b", "facts"), ("c", "probe")]
    assert [finding.severity for finding in found] == [Severity.ERROR, Severity.OK, Severity.OK]


def test_a_server_that_tells_nothing_gives_no_ok() -> None:
    found = findings_from(facts("openai-compatible"), None, None, CHAT)
    assert {finding.severity for finding in found} == {Severity.NOT_CHECKED}
    assert all(finding.title for finding in found)


# --- no server


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (errors.ConnectionRefused("Nobody listens at http://127.0.0.1:1."), "unreachable"),
        (errors.ServerLoading("Loading model"), "loading"),
        (errors.WrongPath("404"), "wrong-path"),
        (errors.Unauthorized("401"), "wrong-key"),
        (errors.NotAModelServer("an HTML page"), "not-a-model-server"),
        (errors.EngineDead("dead"), "engine-dead"),
        (errors.FirstTokenTimeout("silence"), "unreachable"),
    ],
)
def test_a_server_that_cannot_be_asked_is_an_error_with_its_own_code(failure: errors.CallError, code: str) -> None:
    finding = diagnose_unreachable(failure)
    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert failure.message in finding.evidence


def test_the_report_of_no_server_is_a_whole_document() -> None:
    report = unreachable_report("http://127.0.0.1:1", errors.ConnectionRefused("Nobody listens.", hint="Start it."))
    assert report.facts.slots.value is None
    assert report.facts.slots.origin is Origin.READ
    assert b'"unreachable"' in to_json(report)
    assert "Start it." in report.findings[0].evidence
