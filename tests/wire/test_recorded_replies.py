"""Every recorded unstreamed reply: assembled, or classified as the failure it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.data_path import DATA, MISSING
from tests.wire.streams import read_whole
from widelane.errors import (
    CallError,
    ContextOverflow,
    EngineDead,
    ModelNotFound,
    PoolOverflow,
    Retry,
    ServerFailed,
    ServerOverloaded,
    UnsupportedParameter,
    WrongPath,
)
from widelane.records import ChatRequest
from widelane.wire.failures import classify

if not DATA:
    pytest.skip(MISSING, allow_module_level=True)
FIXTURES = DATA / "fixtures"


class Recorded(NamedTuple):
    path: Path
    status: int
    request: dict[str, Any]


def recorded() -> list[Recorded]:
    entries = []
    for index in sorted(FIXTURES.rglob("index.json")):
        for entry in json.loads(index.read_text())["files"]:
            if str(entry.get("path", "")).endswith("/completions") and not entry["file"].endswith(".sse"):
                request = entry.get("request")
                entries.append(
                    Recorded(
                        index.parent / entry["file"], entry["status"], request if isinstance(request, dict) else {}
                    )
                )
    return entries


ALL = recorded()
GOOD = [entry for entry in ALL if entry.status == 200]
BAD = [entry for entry in ALL if entry.status != 200]


def name(entry: Recorded) -> str:
    return str(entry.path.relative_to(FIXTURES))


def test_there_are_recordings_of_both_kinds() -> None:
    assert GOOD
    assert BAD


@pytest.mark.parametrize("entry", GOOD, ids=map(name, GOOD))
def test_a_good_reply_keeps_its_text_calls_finish_and_counts(entry: Recorded) -> None:
    body = json.loads(entry.path.read_text())
    fields = {
        key: entry.request[key] for key in ("messages", "prompt", "max_tokens", "n", "tools") if key in entry.request
    }
    request = ChatRequest(**fields, raw=True, stream=False, logprobs=bool(entry.request.get("logprobs")))
    reply = read_whole(body, request)
    first = body["choices"][0]
    message = first.get("message") or {"content": first.get("text")}
    content = message.get("content") or ""
    assert reply.finish == first["finish_reason"]
    assert reply.usage is not None
    assert reply.usage.completion_tokens == body["usage"]["completion_tokens"]
    assert len(reply.choices) == len(body["choices"])
    assert not reply.timing.streamed
    if "tool_call_recovered" in reply.warnings:
        assert request.tools
        assert "<tool_call>" not in reply.text
        assert [call.name for call in reply.tool_calls] == ["get_weather"]
    elif reply.tool_error and not message.get("tool_calls"):
        assert reply.finish == "length"  # a call in the text, cut off by the limit
        assert not reply.tool_calls
    elif "reasoning_in_content" in reply.warnings:
        assert content.endswith(reply.text)
        assert "think>" not in reply.text + reply.reasoning
    else:
        assert reply.text == content
    calls = message.get("tool_calls") or []
    for sent in calls:
        try:
            arguments = json.loads(sent["function"]["arguments"])
        except ValueError:
            assert reply.tool_error == "arguments are not complete JSON"
            continue
        assert (sent["function"]["name"], arguments) in [(call.name, call.arguments) for call in reply.tool_calls]
    assert ("n_ignored" in reply.warnings) == (len(body["choices"]) < request.n)


EXPECTED: dict[str, type[CallError]] = {
    "error_context_overflow": ContextOverflow,
    "reply_": PoolOverflow,
    "chat_n4": UnsupportedParameter,
    "error_unknown_model": ModelNotFound,
    "error_tools_auto_no_parser": UnsupportedParameter,
    "tools_required_no_parser": UnsupportedParameter,
    "tools_named_no_parser": UnsupportedParameter,
    "error_engine_dead": EngineDead,
    "tools_required": ServerFailed,
}
"""What a recording of this name is; any other refusal of a completion is a plain bad request."""


@pytest.mark.parametrize("entry", BAD, ids=map(name, BAD))
def test_a_refusal_is_classified(entry: Recorded) -> None:
    body = entry.path.read_bytes()
    error = classify(entry.status, {"content-type": "application/json"}, body)
    wanted = next((kind for stem, kind in EXPECTED.items() if entry.path.name.startswith(stem)), None)
    assert error.code == (wanted.code if wanted else "bad_request")
    assert error.status == entry.status
    if entry.status == 400:
        assert error.retry is Retry.NEVER


def test_the_numbers_of_an_overflow_are_read() -> None:
    for entry in BAD:
        if "context_overflow" not in entry.path.name:
            continue
        error = classify(entry.status, {}, entry.path.read_bytes())
        assert isinstance(error, ContextOverflow)
        assert error.n_ctx == 2048  # every server of the recordings was started with this context
        if entry.path.name == "error_context_overflow.json":
            assert error.n_prompt == 4031


def test_a_busy_slot_probe_is_an_overload_and_a_missing_path_is_a_wrong_path() -> None:
    busy = sorted(FIXTURES.rglob("slots_fail_on_no_slot_busy.json"))
    missing = sorted(FIXTURES.rglob("error_404.json")) + sorted(FIXTURES.rglob("server_info_404.json"))
    assert busy
    assert missing
    for path in busy:
        assert isinstance(classify(503, {}, path.read_bytes()), ServerOverloaded)
    for path in missing:
        assert isinstance(classify(404, {}, path.read_bytes()), WrongPath)
