"""Tool calls in the text, tools that are refused or dropped, schemas that nobody enforces."""

from __future__ import annotations

import json

import pytest

from tests.measure.facts import facts
from tests.measure.probes.recorded import recorded, text_of
from widelane.figures import Finding, Severity
from widelane.measure.probes import schema, tool_calls
from widelane.measure.probes.answer import Answer

LLAMA, VLLM = facts("llama.cpp"), facts("vllm")


def forced(name: str) -> Finding:
    return tool_calls.judge_forced(recorded(name), VLLM)


@pytest.mark.parametrize("form", ["json", "stream.sse"])
def test_a_forced_call_that_came_back_as_a_call_is_healthy(form: str) -> None:
    name = "forced_hermes_text.json" if form == "json" else "forced_hermes_text_stream.sse"
    finding = forced(f"vllm/parsers_hermes/{name}")
    assert (finding.code, finding.severity) == ("tool-calls-in-text", Severity.OK)


@pytest.mark.parametrize(
    "name",
    [
        "vllm/parsers_hermes/forced_qwen_xml_text.json",
        "vllm/parsers_hermes/tools_named.json",
        "vllm/parsers_hermes/tools_required.json",
        "vllm/default/forced_tool_text_no_parser.json",
        "llama_cpp/functional/forced_tool_text_no_tools.json",
        "llama_cpp/template_qwen3_5/tools_auto.json",
    ],
)
def test_a_call_left_in_the_text_is_found(name: str) -> None:
    assert forced(name).severity is Severity.ERROR


def test_a_call_that_vanishes_in_a_stream_is_found() -> None:
    finding = forced("vllm/parsers_hermes/forced_qwen_xml_text_stream.sse")
    assert finding.severity is Severity.ERROR
    assert "vanish" in finding.title


def test_a_fault_of_streams_alone_is_named_as_one() -> None:
    healthy = recorded("vllm/parsers_hermes/forced_hermes_text.json")
    vanished = recorded("vllm/parsers_hermes/forced_qwen_xml_text_stream.sse")
    finding = tool_calls.judge_both(healthy, vanished, VLLM)
    assert finding.severity is Severity.ERROR
    assert finding.evidence.startswith("Only in a stream: ")
    assert tool_calls.judge_both(healthy, healthy, VLLM).severity is Severity.OK


@pytest.mark.parametrize(
    "name",
    [
        "vllm/default/error_tools_auto_no_parser.json",
        "vllm/default/tools_required_no_parser.json",
        "vllm/default/tools_named_no_parser.json",
    ],
)
def test_tools_that_are_refused_for_want_of_a_parser_are_found(name: str) -> None:
    finding = forced(name)
    assert finding.severity is Severity.ERROR
    assert "--tool-call-parser" in finding.evidence


def test_announced_calls_that_never_come_are_found() -> None:
    assert forced("vllm/seqs2/tools_required.json").severity is Severity.ERROR


@pytest.mark.parametrize("name", ["forced_tool_text_auto.json", "forced_tool_xml_wrong_parser.json"])
def test_a_call_that_could_not_be_forced_is_not_checked(name: str) -> None:
    assert forced(f"vllm/seqs2/{name}").severity is Severity.NOT_CHECKED


def test_a_server_that_fails_on_what_the_model_wrote_is_found() -> None:
    answer = recorded("llama_cpp/template_qwen3_5/tools_required.json")
    finding = tool_calls.judge_asked(answer, answer, LLAMA, needs_tools=False)
    assert finding.severity is Severity.WARNING
    assert "peg-native" in finding.evidence


def test_a_template_without_tools_is_told_apart_from_one_with_tools() -> None:
    dropped = recorded("llama_cpp/functional/tools_auto.json")
    assert dropped.prompt_tokens == 37
    finding = tool_calls.judge_asked(dropped, dropped, LLAMA, needs_tools=False)
    assert finding.severity is Severity.NOT_CHECKED
    assert "the template has no tools" in finding.title
    assert tool_calls.judge_asked(dropped, dropped, LLAMA, needs_tools=True).severity is Severity.ERROR


def test_prose_from_a_model_that_was_shown_its_tools_proves_nothing() -> None:
    answer = recorded("llama_cpp/template_qwen3/tools_auto.json")
    bare = recorded("llama_cpp/template_qwen3/no_tools_prompt_tokens.json")
    assert (answer.prompt_tokens, bare.prompt_tokens) == (194, 16)
    finding = tool_calls.judge_asked(answer, bare, LLAMA, needs_tools=True)
    assert finding.severity is Severity.NOT_CHECKED
    assert "prose" in finding.title


def test_broken_arguments_are_found() -> None:
    broken = Answer(status=200, tool_calls=(("get_weather", '{"city": '),), finish="tool_calls")
    assert tool_calls.judge_forced(broken, VLLM).severity is Severity.ERROR


def test_a_grammar_refused_beside_tools_is_no_fault() -> None:
    assert tool_calls.grammar_beside_tools_refused(recorded("llama_cpp/functional/error_grammar_with_tools.json"))
    assert not tool_calls.grammar_beside_tools_refused(recorded("vllm/default/error_tools_auto_no_parser.json"))


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("template_qwen3", tool_calls.HERMES),
        ("template_qwen3_5", tool_calls.QWEN_XML),
        ("template_qwen3_coder", tool_calls.QWEN_XML),
    ],
)
def test_the_models_own_form_of_a_call_is_read_from_its_prompt(template: str, form: str) -> None:
    prompt = json.loads(text_of(f"llama_cpp/{template}/apply_template_tools.json"))["prompt"]
    assert tool_calls.form_of(prompt) == form


def test_a_prompt_that_shows_no_tools_has_no_form() -> None:
    prompt = json.loads(text_of("llama_cpp/functional/apply_template.json"))["prompt"]
    assert tool_calls.form_of(prompt) is None
    assert tool_calls.form_of(None) is None


@pytest.mark.parametrize(
    "name",
    [
        "llama_cpp/functional/chat_json_schema.json",
        "vllm/default/chat_json_schema.json",
        "vllm/parsers_hermes/json_schema_thinking_off.json",
    ],
)
def test_an_enforced_schema_is_healthy(name: str) -> None:
    assert schema.judge(recorded(name), None, VLLM).severity is Severity.OK


def test_a_schema_enforced_only_without_thinking_is_found_with_its_cure() -> None:
    default = recorded("vllm/parsers_hermes/json_schema_default.json")
    off = recorded("vllm/parsers_hermes/json_schema_thinking_off.json")
    finding = schema.judge(default, off, VLLM)
    assert (finding.code, finding.severity) == ("schema-not-enforced", Severity.ERROR)
    assert "only with thinking switched off" in finding.title


def test_prose_in_place_of_json_is_found() -> None:
    assert schema.judge(recorded("mlx_lm/response_format_json.json"), None, facts("mlx-lm")).severity is Severity.ERROR


def test_a_refused_schema_is_a_warning_and_a_failed_call_is_not_checked() -> None:
    assert schema.judge(Answer(status=400, error="no"), None, VLLM).severity is Severity.WARNING
    assert schema.judge(Answer(status=500, error="no"), None, VLLM).severity is Severity.NOT_CHECKED


@pytest.mark.parametrize(
    ("text", "finish", "verdict"),
    [
        ('{"name": "Ada", "age": 36}', "stop", True),
        ('{"name": "Ada", "age": 3', "length", None),
        ('{"name": "Ada", "age": 3', "stop", False),
        ('{"name": "Ada", "age": "36"}', "stop", False),
        ('{"name": "Ada", "age": true}', "stop", False),
        ('{"name": "Ada"}', "stop", False),
        ('```json\n{"name": "Ada", "age": 36}\n```', "stop", False),
    ],
)
def test_the_schema_is_checked_to_the_letter(text: str, finish: str, verdict: bool | None) -> None:
    assert schema.fits(Answer(status=200, content=text, finish=finish)) is verdict
