"""The whole plan: published rates met, capacity as the pool really holds it, and no advice that does not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.requests import arguments, lever, plan, request
from widelane.figures import Figure
from widelane.plan.footprint import PastCall
from widelane.plan.make import make_plan
from widelane.plan.report import PlanReport, Use


def number(figure: Figure) -> float:
    assert figure.number is not None, figure.reason
    return figure.number


class TestTheFieldReportsMachine:
    """Qwen3.6-27B on a GB10: 273 GB/s, 28.5 GB in fp8 under vLLM and 17.5 GB in Q4 under llama.cpp."""

    def test_fp8_under_vllm(self) -> None:
        """9.6 tok/s by the simple division; 7.9 were measured plain, 14.4 with two drafted tokens."""
        report = plan("qwen3.6-27b", "gb10", quant="fp8", weights_gb=28.5)
        assert report.ceiling_tok_s.value == 9.6
        assert 9.6 < number(report.ceiling_read_tok_s) < 11
        assert number(report.expected_tok_s) == pytest.approx(7.9, rel=0.10)
        assert number(report.drafting_tok_s) == pytest.approx(14.4, rel=0.15)

    def test_q4_under_llama_cpp(self) -> None:
        """15.6 by the division; 10.3 plain and 24.2 with drafts were measured."""
        report = plan("qwen3.6-27b", "gb10", quant="q4", weights_gb=17.5, engine="llama.cpp")
        assert report.ceiling_tok_s.value == 15.6
        assert number(report.expected_tok_s) == pytest.approx(10.3, rel=0.15)
        assert number(lever(report, "speculation").then) == pytest.approx(24.2, rel=0.15)

    def test_the_recurrent_state_is_the_flag_that_one_overlooks(self) -> None:
        state = lever(plan("qwen3.6-27b", "gb10", quant="fp8", weights_gb=28.5), "state-dtype")
        assert state.flag == "--mamba-ssm-cache-dtype float16"
        assert (state.now.unit, state.then.unit) == ("sequences", "sequences")
        assert number(state.then) > 1.2 * number(state.now)
        assert state.taken

    @pytest.mark.parametrize(("typical", "lanes"), [("12000", 9), ("15000", 7), ("18000", 7), ("12k-18k", 7)])
    def test_lanes_are_planned_by_what_requests_use(self, typical: str, lanes: int) -> None:
        """A pool of 182k tokens by the log, chains of 12 to 18 thousand, a cap of 60 thousand: 7 to 9 lanes, not 3."""
        report = plan(
            "qwen3.6-27b", "gb10", quant="fp8", typical=typical, max_tokens=60_000, pool_tokens=182_000, draft_depth=2
        )
        assert number(report.sequences_that_fit.worst_case) == 3
        recommended = report.recommendation.lanes
        assert number(recommended) <= lanes <= max(number(report.sequences_that_fit.typical), number(recommended))
        if typical == "12k-18k":
            assert (recommended.value, recommended.low, recommended.high) == (7, 7, 9)
        assert any("fuse, not a reservation" in text for text in report.recommendation.why)

    def test_one_session_wants_the_smallest_weights_with_drafts(self) -> None:
        report = plan("qwen3.6-27b", "gb10", quant="fp8", weights_gb=28.5, use=Use.INTERACTIVE)
        assert "q4_k_m weights" in report.recommendation.sentence
        assert "llama.cpp" in report.recommendation.sentence
        assert "drafted" in report.recommendation.sentence
        assert report.recommendation.lanes.value == 1
        assert arguments(report)["--max-num-seqs"] == "1"

    def test_a_rate_with_assumed_drafts_is_never_the_figure(self) -> None:
        """Not for one session and not for many; with a stated acceptance it is."""
        for use in (Use.INTERACTIVE, Use.BATCH):
            said = plan("qwen3.6-27b", "gb10", quant="fp8", use=use).recommendation
            assert said.drafting_tok_s is not None
            assert number(said.expected_tok_s) < number(said.drafting_tok_s)
            known = plan("qwen3.6-27b", "gb10", quant="fp8", use=use, acceptance=(0.84, 0.6)).recommendation
            assert known.drafting_tok_s is None

    def test_batch_work_wants_the_wide_configuration(self) -> None:
        flags = arguments(plan("qwen3.6-27b", "gb10", quant="fp8", weights_gb=28.5))
        assert int(flags["--max-num-seqs"] or 0) > 64
        assert flags["--kv-cache-dtype"] == "fp8"
        assert flags["--mamba-ssm-cache-dtype"] == "float16"
        assert flags["--tool-call-parser"] == "qwen3_xml"
        assert flags["--reasoning-parser"] == "qwen3"


class TestWidth:
    def test_a_dense_model_is_wide_and_a_mixture_is_not(self) -> None:
        """The note's comparison: 64 against 5 to 8 on a GB10 at short context."""
        dense = plan("qwen3.6-27b", "gb10", quant="fp8", typical="2048")
        mixture = plan("qwen3.6-35b-a3b", "gb10", quant="fp8", typical="2048")
        assert number(dense.width.doubling_batch) > 4 * number(mixture.width.doubling_batch)
        assert dense.width.sentence.startswith("A dense model")
        assert mixture.width.sentence.startswith("A mixture of experts")

    def test_agents_are_not_run_past_the_doubling_batch(self) -> None:
        report = plan("qwen3.6-35b-a3b", "gb10", quant="fp8", use=Use.AGENTS)
        assert number(report.recommendation.lanes) <= number(report.width.doubling_batch) + 1

    def test_the_parts_of_a_step_add_up(self) -> None:
        for step in plan("qwen3.6-35b-a3b", "gb10", quant="fp8").steps:
            parts = step.weights_s + step.experts_s + step.cache_s + step.state_s + step.compute_s + step.overhead_s
            assert number(step.step_s) == pytest.approx(parts, rel=1e-3)

    def test_steps_beyond_the_pool_are_marked(self) -> None:
        report = plan("qwen3-8b", "rtx-3090")
        held = number(report.sequences_that_fit.typical)
        assert {step.fits for step in report.steps} == {True, False}
        assert all(step.fits == (step.batch <= held) for step in report.steps)


class TestWhatDoesNotFit:
    def test_says_by_how_much_and_recommends_nothing_wide(self) -> None:
        report = plan("llama-3.3-70b-instruct", "rtx-4090")
        assert report.recommendation.sentence.startswith("It does not fit on rtx-4090")
        assert "exceed the memory by" in report.recommendation.sentence
        assert report.recommendation.lanes.value is None
        assert not any(one.taken for one in report.levers)

    def test_a_longest_request_that_does_not_fit_is_cut_in_the_command(self) -> None:
        """A pool of a few thousand tokens: vLLM would refuse to start with a longer --max-model-len."""
        report = plan("qwen3-8b", "rtx-3090", typical="2000", max_tokens=40_000, memory_bytes=18_500_000_000)
        allowed = int(arguments(report)["--max-model-len"] or 0)
        assert 0 < allowed < 40_000
        assert any("not the 40,000 asked for" in note for note in report.notes)


class TestLlamaCpp:
    def test_slots_get_the_longest_request_each(self) -> None:
        flags = arguments(plan("qwen3-8b", "rtx-4090", quant="q4", engine="llama.cpp", max_tokens=8192))
        slots = int(flags["-np"] or 0)
        assert slots > 4
        assert int(flags["-c"] or 0) >= slots * 8192
        assert "--kv-unified" not in flags

    def test_a_shared_pool_where_they_cannot(self) -> None:
        report = plan("qwen3-8b", "rtx-4090", quant="q4", engine="llama.cpp", max_tokens=40_000, typical="2000")
        flags = arguments(report)
        assert "--kv-unified" in flags
        assert number(report.sequences_that_fit.risk) < 0.01, "a full pool fails every call"

    def test_ollama_gives_each_slot_the_whole_context(self) -> None:
        report = plan("qwen3-8b", "rtx-3090", quant="q4", engine="ollama")
        assert number(report.sequences_that_fit.worst_case) >= number(report.recommendation.lanes) > 1

    def test_ollama_runs_some_models_one_at_a_time(self) -> None:
        report = plan("qwen3.6-27b", "gb10", quant="q4", engine="ollama")
        assert report.recommendation.lanes.value == 1
        assert "one request at a time" in report.recommendation.why[0], "not the memory is to blame"


class TestWhatTheUserFixed:
    def test_stays(self) -> None:
        flags = arguments(plan("qwen3.6-27b", "gb10", quant="fp8", kv_dtype="bf16", state_dtype="float32", slots=12))
        assert flags["--max-num-seqs"] == "12"
        assert "--kv-cache-dtype" not in flags
        assert flags["--mamba-ssm-cache-dtype"] == "float32"

    def test_no_drafts(self) -> None:
        report = plan("qwen3.6-27b", "gb10", quant="fp8", draft_depth=0)
        assert report.drafting_tok_s.value is None
        assert "--speculative-config" not in arguments(report)
        assert not [one for one in report.levers if one.code == "speculation"]

    def test_a_poor_acceptance_makes_drafts_lose(self) -> None:
        report = plan("qwen3.6-27b", "gb10", quant="fp8", acceptance=(0.02,))
        assert number(lever(report, "speculation").gain) < 1
        assert not lever(report, "speculation").taken
        assert "--speculative-config" not in arguments(report)

    def test_a_running_server_is_described_as_it_is(self) -> None:
        report = plan("qwen3.6-27b", "gb10", quant="fp8", pool_bytes=20 * 2**30)
        assert not any(one.taken for one in report.levers)
        assert number(lever(report, "kv-dtype").gain) > 1, "what a change would give in the same memory is still told"

    def test_past_requests_win_over_a_typical_one(self) -> None:
        calls = [PastCall(prompt_tokens=1000, total_tokens=tokens) for tokens in (2000, 4000, 6000)]
        report = plan("qwen3-8b", "rtx-3090", footprints=calls)
        assert report.sequences_that_fit.typical_tokens.value == 4000


def test_levers_come_in_the_order_of_their_gain() -> None:
    gains = [one.gain.number or 0.0 for one in plan("qwen3.6-27b", "gb10", quant="bf16").levers]
    assert gains == sorted(gains, reverse=True)
    assert len(gains) == 4, "smaller weights, KV dtype, state dtype, speculation; vLLM lets enough in by itself"


def test_every_unknown_figure_has_a_reason_and_every_argument_too() -> None:
    report = plan("gpt-oss-20b", "rtx-5090")
    assert all(part.reason for part in report.launch.argv if part.flag)
    assert all(part.reason for part in report.launch.left_out)


DEVICES = st.sampled_from(["gb10", "rtx-4090", "rtx-3090", "apple-m4-max", "h100-sxm"])
MODELS = st.sampled_from(["qwen3-8b", "qwen3.6-35b-a3b", "gemma-3-4b-it", "gpt-oss-20b"])
ENGINES = st.sampled_from(["vllm", "llama.cpp"])


def rates(report: PlanReport) -> tuple[float, float]:
    return number(report.expected_tok_s), number(report.ceiling_tok_s)


@settings(max_examples=12, deadline=None)
@given(MODELS, DEVICES, ENGINES)
def test_more_bandwidth_is_never_slower(model: str, device: str, engine: str) -> None:
    asked = request(model, device, engine=engine, quant="q4", draft_depth=0)
    assert asked.device.memory_bandwidth_bytes_s is not None
    faster = replace(asked.device, memory_bandwidth_bytes_s=2 * asked.device.memory_bandwidth_bytes_s)
    now, then = make_plan(asked), make_plan(replace(asked, device=faster))
    assert all(after >= before for before, after in zip(rates(now), rates(then), strict=True))


@settings(max_examples=12, deadline=None)
@given(MODELS, DEVICES, st.integers(1, 6))
def test_longer_requests_fit_less_often_and_are_slower(model: str, device: str, times: int) -> None:
    short = plan(model, device, quant="q4", typical="1000", draft_depth=0, kv_dtype="auto")
    long = plan(model, device, quant="q4", typical=f"{1000 * (times + 1)}", draft_depth=0, kv_dtype="auto")
    assert number(long.sequences_that_fit.typical) <= number(short.sequences_that_fit.typical)
    assert number(long.expected_tok_s) <= number(short.expected_tok_s)


@settings(max_examples=12, deadline=None)
@given(MODELS, DEVICES, st.floats(1.05, 3.0))
def test_more_bytes_are_slower_and_leave_less_room(model: str, device: str, factor: float) -> None:
    light = request(model, device, quant="q4", draft_depth=0, kv_dtype="auto", slots=16)
    heavy = request(
        model, device, quant="q4", weights_gb=light.model.weights.total_bytes * factor / 1e9,
        draft_depth=0, kv_dtype="auto", slots=16,
    )  # fmt: skip
    before, after = make_plan(light), make_plan(heavy)
    assert all(then <= now for now, then in zip(rates(before), rates(after), strict=True))
    assert number(after.kv_pool.bytes) <= number(before.kv_pool.bytes)
