"""Thinking: kept apart, leaked, swallowing the answer, impossible to switch off."""

from __future__ import annotations

import pytest

from tests.measure.facts import facts
from tests.measure.probes.recorded import recorded, text_of
from widelane.figures import Severity
from widelane.measure.probes import plain_answer, reasoning_leak
from widelane.measure.probes.answer import Answer
from widelane.measure.probes.rendering import opens_thought, thinks

LLAMA, VLLM = facts("llama.cpp"), facts("vllm")


@pytest.mark.parametrize(
    "name",
    [
        "llama_cpp/template_qwen3/forced_think_text.json",
        "llama_cpp/template_qwen3/forced_think_text_stream.sse",
        "llama_cpp/template_qwen3_5/forced_think_text.json",
        "llama_cpp/template_qwen3_5/forced_think_text_stream.sse",
        "llama_cpp/template_qwen3_5/forced_think_end_only.json",
    ],
)
def test_a_recorded_thought_that_was_separated_is_healthy(name: str) -> None:
    answer = recorded(name)
    finding = reasoning_leak.judge(answer, answer, True, LLAMA)
    assert (finding.code, finding.severity) == ("reasoning-leak", Severity.OK)


@pytest.mark.parametrize(
    "name",
    [
        "llama_cpp/template_qwen3_coder/forced_think_text.json",
        "llama_cpp/template_qwen3/forced_think_text_format_none.json",
        "llama_cpp/template_qwen3/forced_think_end_only.json",
        "llama_cpp/template_qwen3_5/forced_think_text_format_none.json",
        "vllm/default/forced_think_text_no_parser.json",
        "vllm/parsers_hermes/forced_think_text_thinking_off.json",
    ],
)
def test_a_recorded_thought_that_leaked_is_found(name: str) -> None:
    answer = recorded(name)
    assert reasoning_leak.judge(answer, answer, True, VLLM).severity is Severity.ERROR
    assert reasoning_leak.judge(answer, answer, None, VLLM).severity is Severity.WARNING


def test_a_leak_that_a_model_without_thoughts_cannot_cause_is_only_a_note() -> None:
    answer = recorded("llama_cpp/functional/forced_think_text.json")
    finding = reasoning_leak.judge(answer, answer, False, LLAMA)
    assert finding.severity is Severity.INFO
    assert "does not matter unless the model is exchanged" in finding.evidence


def test_a_leak_in_streams_alone_is_found_and_named() -> None:
    whole = recorded("llama_cpp/template_qwen3/forced_think_text.json")
    leaking = recorded("vllm/default/forced_think_text_no_parser.json")
    finding = reasoning_leak.judge(whole, leaking, True, LLAMA)
    assert finding.severity is Severity.ERROR
    assert "in a stream." in finding.evidence


@pytest.mark.parametrize("name", ["vllm/seqs2/forced_think_text.json", "vllm/seqs2/forced_think_end_only.json"])
def test_text_that_could_not_be_forced_is_not_checked(name: str) -> None:
    finding = reasoning_leak.judge(recorded(name), recorded(name), None, VLLM)
    assert finding.severity is Severity.NOT_CHECKED
    assert "reasoning-swallowed" in finding.evidence


def test_a_server_that_cannot_force_text_is_judged_by_an_ordinary_reply_and_says_so() -> None:
    apart = reasoning_leak.judge_unforced(Answer(status=200, content="42.", reasoning="Let me add."), VLLM)
    assert apart.severity is Severity.OK
    assert "inferred" in apart.title
    leaked = reasoning_leak.judge_unforced(Answer(status=200, content="<think>Hm.</think>42."), VLLM)
    assert leaked.severity is Severity.ERROR
    silent = reasoning_leak.judge_unforced(Answer(status=200, content="42."), VLLM)
    assert silent.severity is Severity.NOT_CHECKED


def test_a_refused_probe_is_not_checked() -> None:
    refused = Answer(status=400, error="grammar is off")
    assert reasoning_leak.judge(refused, refused, True, LLAMA).severity is Severity.NOT_CHECKED


@pytest.mark.parametrize(
    "name", ["vllm/seqs2/chat_plain_with_reasoning_parser.json", "llama_cpp/template_qwen3_5/chat_plain.json"]
)
def test_an_answer_in_the_thinking_field_is_found(name: str) -> None:
    finding = plain_answer.judge_swallowed(recorded(name), None, VLLM)
    assert (finding.code, finding.severity) == ("reasoning-swallowed", Severity.ERROR)
    assert "The capital of France is Paris." in finding.evidence


def test_the_cure_is_named_when_the_same_question_works_without_thinking() -> None:
    swallowed = recorded("vllm/seqs2/chat_plain_with_reasoning_parser.json")
    cured = recorded("vllm/seqs2/chat_plain_thinking_off.json")
    assert "answered in the text" in plain_answer.judge_swallowed(swallowed, cured, VLLM).evidence
    assert "answered in the text" not in plain_answer.judge_swallowed(swallowed, None, VLLM).evidence


@pytest.mark.parametrize(
    "name",
    [
        "llama_cpp/template_qwen3/chat_plain.json",
        "llama_cpp/template_qwen3_coder/chat_plain.json",
        "vllm/default/chat.json",
    ],
)
def test_an_answer_in_the_text_is_healthy(name: str) -> None:
    assert plain_answer.judge_swallowed(recorded(name), None, LLAMA).severity is Severity.OK
    assert plain_answer.judge_template(recorded(name), LLAMA).severity is Severity.OK


def test_thinking_that_is_not_over_at_the_limit_says_nothing() -> None:
    cut = Answer(status=200, reasoning="Well, let me", finish="length")
    assert plain_answer.judge_swallowed(cut, None, VLLM).severity is Severity.NOT_CHECKED


THINKING = Answer(status=200, content="Paris.", reasoning="Easy.", finish="stop")
PLAIN = Answer(status=200, content="Paris.", finish="stop")


def test_thinking_that_stops_when_switched_off_is_healthy() -> None:
    assert plain_answer.judge_switch(THINKING, PLAIN, None).severity is Severity.OK


def test_thinking_that_goes_on_when_switched_off_is_found() -> None:
    finding = plain_answer.judge_switch(THINKING, THINKING, ("same", "same"))
    assert (finding.code, finding.severity) == ("thinking-not-switchable", Severity.WARNING)
    assert "renders the same prompt" in finding.evidence


def test_a_model_that_does_not_think_has_nothing_to_switch() -> None:
    assert plain_answer.judge_switch(PLAIN, PLAIN, None).severity is Severity.NOT_CHECKED
    assert plain_answer.judge_switch(THINKING, None, None).severity is Severity.NOT_CHECKED


@pytest.mark.parametrize("text", ["Paris.<|im_end|>\n<|im_start|>user\nhi", "Paris.</s>", "Paris.\nuser: and Rome?"])
def test_marks_of_a_conversation_in_an_answer_mean_a_wrong_template(text: str) -> None:
    finding = plain_answer.judge_template(Answer(status=200, content=text, finish="length"), VLLM)
    assert (finding.code, finding.severity) == ("template-wrong", Severity.ERROR)


def test_a_long_answer_alone_proves_no_wrong_template() -> None:
    rambling = Answer(status=200, content="Paris is a city of", finish="length")
    assert plain_answer.judge_template(rambling, VLLM).severity is Severity.NOT_CHECKED


def test_a_failing_template_is_found() -> None:
    failing = Answer(status=400, error="As of transformers v4.44, default chat template is no longer allowed")
    assert plain_answer.judge_template(failing, VLLM).severity is Severity.ERROR


def test_a_template_that_opens_the_thought_itself_is_recognised() -> None:
    assert opens_thought("<|im_start|>assistant\n<think>\n")
    assert not opens_thought("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not opens_thought(None)


def test_what_is_not_shown_is_not_known_to_think() -> None:
    assert thinks(None, None) is None
    assert thinks(None, "…assistant\n<think>\n") is True
    assert thinks(text_of("llama_cpp/np4/props.json"), None) is False
    assert thinks(text_of("llama_cpp/template_qwen3/props.json"), None) is True
