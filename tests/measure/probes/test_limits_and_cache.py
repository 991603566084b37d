"""Prompts beyond the context, output limits, the prefix cache, slots after a dropped stream, streams held back."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.measure.facts import facts, read
from tests.measure.probes.recorded import recorded
from tests.measure.probes.replies import reply
from widelane.engines.engine import Gauges
from widelane.errors import TruncatedStream
from widelane.figures import Severity
from widelane.measure.probes import cancel, output_limit, pool_overflow, prefix_cache, samples, stream, truncation
from widelane.measure.probes.answer import Answer
from widelane.measure.probes.prefix_cache import Reading

LLAMA, VLLM, OLLAMA = facts("llama.cpp"), facts("vllm"), facts("ollama")


# --- a prompt beyond the context


@pytest.mark.parametrize(
    "name", ["llama_cpp/functional/error_context_overflow.json", "vllm/default/error_context_overflow_prompt.json"]
)
def test_an_overflow_that_is_refused_is_healthy(name: str) -> None:
    finding = truncation.judge(recorded(name), 2048, 2457, None, LLAMA)
    assert (finding.code, finding.severity) == ("prompt-truncated", Severity.OK)


def test_a_prompt_cut_without_a_word_is_found() -> None:
    # Ollama, as reported: 2,051 of about 30,000 tokens were read.
    cut = Answer(status=200, content="I do not know.", finish="stop", prompt_tokens=2_051)
    finding = truncation.judge(cut, 25_000, 30_000, Answer(status=200, prompt_tokens=90), OLLAMA)
    assert finding.severity is Severity.ERROR
    assert "2,051" in finding.evidence


def test_a_context_larger_than_stated_is_no_truncation() -> None:
    whole = Answer(status=200, prompt_tokens=2_480, finish="stop")
    assert truncation.judge(whole, 2048, 2457, Answer(status=200, prompt_tokens=87), LLAMA).severity is Severity.OK


def test_a_tokenizer_with_two_tokens_a_word_is_allowed_for() -> None:
    # 64 words took 148 tokens, so 1,000 words are about 2,312: the 1,100 that were read are a cut.
    small = Answer(status=200, prompt_tokens=148)
    cut = Answer(status=200, prompt_tokens=1_100, finish="stop")
    assert truncation.judge(cut, 1_024, 1_000, small, OLLAMA).severity is Severity.ERROR


def test_an_overflow_that_fails_as_a_server_error_is_a_warning() -> None:
    answer = recorded("llama_cpp/unified_overflow/reply_0.json")
    assert truncation.judge(answer, 1024, 1228, None, LLAMA).severity is Severity.WARNING


@pytest.mark.parametrize("answer", [Answer(status=200, finish="stop"), Answer(status=401, error="no key")])
def test_an_overflow_that_tells_nothing_is_not_checked(answer: Answer) -> None:
    assert truncation.judge(answer, 2048, 2457, None, LLAMA).severity is Severity.NOT_CHECKED


# --- max_tokens


def test_a_limit_that_was_kept_is_healthy_and_one_passed_is_found() -> None:
    assert output_limit.judge_limit(reply(tokens=8, finish="length"), 8, LLAMA).severity is Severity.OK
    assert output_limit.judge_limit(reply(tokens=9, finish="stop"), 8, OLLAMA).severity is Severity.ERROR
    fused = reply(tokens=None, warnings=("max_tokens_ignored",))
    assert output_limit.judge_limit(fused, 8, OLLAMA).severity is Severity.ERROR


def test_a_model_that_stopped_below_the_limit_proves_nothing() -> None:
    assert output_limit.judge_limit(reply(tokens=5, finish="stop"), 8, LLAMA).severity is Severity.NOT_CHECKED
    assert output_limit.judge_limit(reply(tokens=None), 8, LLAMA).severity is Severity.NOT_CHECKED


def test_a_tiny_default_limit_is_found_with_its_size() -> None:
    finding = output_limit.judge_default(reply(tokens=16, finish="length"), 16, VLLM)
    assert (finding.code, finding.severity) == ("max-tokens-default-tiny", Severity.WARNING)
    assert "16 tokens" in finding.title


def test_a_reply_that_went_on_has_no_tiny_default() -> None:
    assert output_limit.judge_default(None, 40, VLLM).severity is Severity.OK
    assert output_limit.judge_default(reply(tokens=30, finish="stop"), 30, VLLM).severity is Severity.NOT_CHECKED


# --- the prefix cache


def recorded_reading(name: str, seconds: float) -> Reading:
    answer = recorded(name)
    return Reading(prompt_tokens=answer.prompt_tokens, cached_tokens=answer.cached_tokens, ttft_s=seconds)


def test_a_recorded_reused_prefix_is_healthy_and_one_without_cache_is_found() -> None:
    first = recorded_reading("llama_cpp/functional/prefix_1.json", 5.08)
    again = recorded_reading("llama_cpp/functional/prefix_2.json", 0.26)
    without = recorded_reading("llama_cpp/functional/prefix_3_cache_off.json", 5.0)
    healthy = prefix_cache.judge(first, again, None, LLAMA)
    assert (healthy.code, healthy.severity) == ("prefix-cache-off", Severity.OK)
    assert "249 of 257" in healthy.evidence
    assert prefix_cache.judge(first, without, 0.0, LLAMA).severity is Severity.WARNING


def seconds(first_s: float | None, second_s: float | None) -> tuple[Reading, Reading]:
    def one(ttft_s: float | None) -> Reading:
        return Reading(prompt_tokens=250, cached_tokens=None, ttft_s=ttft_s)

    return one(first_s), one(second_s)


def test_the_servers_counter_of_hits_stands_in_for_usage() -> None:
    assert prefix_cache.judge(*seconds(1.0, 0.9), 240.0, VLLM).severity is Severity.OK
    assert prefix_cache.judge(*seconds(1.0, 0.9), 0.0, VLLM).severity is Severity.WARNING


@pytest.mark.parametrize(
    ("first_s", "second_s", "severity"),
    [
        (5.1, 0.26, Severity.OK),
        (5.1, 5.0, Severity.WARNING),
        (0.06, 0.05, Severity.NOT_CHECKED),
        (None, None, Severity.NOT_CHECKED),
    ],
)
def test_without_any_count_the_first_tokens_time_decides_where_it_can(
    first_s: float | None, second_s: float | None, severity: Severity
) -> None:
    assert prefix_cache.judge(*seconds(first_s, second_s), None, VLLM).severity is severity


def test_a_cache_that_is_on_with_blocks_too_large_for_the_probe_is_not_called_off() -> None:
    hybrid = facts("vllm", prefix_cache=True, extra={"block_size": read(2176, "tokens")})
    finding = prefix_cache.judge(*seconds(1.0, 1.0), 0.0, hybrid)
    assert finding.severity is Severity.NOT_CHECKED
    assert "2176" in finding.title


def test_hits_are_counted_only_where_the_server_counts_them() -> None:
    assert prefix_cache.hits(Gauges(prefix_hits_total=10.0), Gauges(prefix_hits_total=250.0)) == 240.0
    assert prefix_cache.hits(Gauges(), Gauges(prefix_hits_total=250.0)) is None


# --- dropped streams


def freed(seconds: float | None, *, inferred: bool = False) -> cancel.Freed:
    return cancel.Freed(streams=2, seconds=seconds, watched_s=8.0, inferred=inferred)


def test_slots_that_are_free_at_once_are_healthy_slow_ones_a_warning_kept_ones_an_error() -> None:
    assert cancel.judge(freed(0.3), LLAMA).severity is Severity.OK
    assert "0.3 s" in cancel.judge(freed(0.3), LLAMA).title
    assert cancel.judge(freed(5.0), LLAMA).severity is Severity.WARNING
    kept = cancel.judge(freed(None), LLAMA)
    assert (kept.code, kept.severity) == ("cancel-not-freeing", Severity.ERROR)


def test_what_was_concluded_from_a_following_call_says_so() -> None:
    assert "inferred" in cancel.judge(freed(0.1, inferred=True), LLAMA).title


# --- streams


def test_tokens_that_come_one_by_one_are_healthy_and_one_burst_is_found() -> None:
    steady = reply(chunks_ms=[100 + 40 * i for i in range(24)], tokens=24)
    burst = reply(chunks_ms=[2000 + 0.1 * i for i in range(24)], tokens=24)
    assert stream.judge_buffering(steady, LLAMA).severity is Severity.OK
    finding = stream.judge_buffering(burst, LLAMA)
    assert (finding.code, finding.severity) == ("buffering-proxy", Severity.WARNING)


def test_bursts_of_speculative_decoding_are_not_taken_for_a_proxy() -> None:
    # As recorded: five chunks within a millisecond, then 350 ms of nothing.
    chunks = [300 + 350 * step + 0.2 * i for step in range(5) for i in range(5)]
    assert stream.judge_buffering(reply(chunks_ms=chunks, tokens=25), LLAMA).severity is Severity.OK


def test_a_reply_that_was_not_streamed_is_found_and_a_short_one_proves_nothing() -> None:
    assert stream.judge_buffering(reply(streamed=False, tokens=24), LLAMA).severity is Severity.WARNING
    assert stream.judge_buffering(reply(tokens=3), LLAMA).severity is Severity.NOT_CHECKED


@pytest.mark.parametrize(
    "name", ["vllm/engine_death/stream_cut_by_engine_death.sse", "llama_cpp/template_qwen3_5/chat_stream_tools.sse"]
)
def test_a_recorded_error_inside_a_stream_is_found(name: str) -> None:
    finding = stream.judge_stream(recorded(name))
    assert (finding.code, finding.severity) == ("error-in-stream", Severity.ERROR)


@pytest.mark.parametrize(
    "name",
    [
        "llama_cpp/np4/chat_stream.sse",
        "vllm/default/chat_stream.sse",
        "mlx_lm/chat_stream.sse",
        "llama_cpp/spec_draft/chat_stream.sse",
    ],
)
def test_a_recorded_stream_that_says_how_it_ended_is_healthy(name: str) -> None:
    assert stream.judge_stream(recorded(name)).severity is Severity.OK


def test_a_stream_without_a_finish_reason_is_found_and_a_refused_one_not_checked() -> None:
    assert stream.judge_stream(Answer(status=200, streamed=True, done=True, content="Hi")).severity is Severity.ERROR
    assert stream.judge_stream(Answer(status=503, error="busy")).severity is Severity.NOT_CHECKED
    assert stream.failed_stream(TruncatedStream("cut")).severity is Severity.ERROR


# --- several samples


@pytest.mark.parametrize(
    ("name", "asked", "severity"),
    [
        ("vllm/default/chat_n4.json", 4, Severity.OK),
        ("llama_cpp/np4/chat_n4.json", 4, Severity.OK),
        ("llama_cpp/np1/chat_n4.json", 4, Severity.INFO),
        ("mlx_lm/chat_n3.json", 3, Severity.WARNING),
    ],
)
def test_recorded_choices_are_counted(name: str, asked: int, severity: Severity) -> None:
    finding = samples.judge_n(recorded(name), asked, LLAMA)
    assert (finding.code, finding.severity) == ("n-ignored", severity)


def test_identical_samples_are_noted_and_different_ones_healthy() -> None:
    same = [Answer(status=200, content="The sea was calm.")] * 3
    assert samples.judge_temperature(same, LLAMA).severity is Severity.INFO
    mixed = [*same, Answer(status=200, content="Waves rose.")]
    assert samples.judge_temperature(mixed, LLAMA).severity is Severity.OK
    assert samples.judge_temperature([Answer(status=500, error="no")], LLAMA).severity is Severity.NOT_CHECKED
    assert samples.judge_temperature([Answer(status=200)] * 3, LLAMA).severity is Severity.NOT_CHECKED


# --- the shared pool


def test_calls_that_failed_together_are_an_error_and_calls_that_waited_are_healthy() -> None:
    assert pool_overflow.judge(Counter(pool_overflow=4), 4, 400, LLAMA).severity is Severity.ERROR
    assert pool_overflow.judge(Counter(ok=4), 4, 400, LLAMA).severity is Severity.OK
    assert pool_overflow.judge(Counter(ok=3, overloaded=1), 4, 400, LLAMA).severity is Severity.NOT_CHECKED
