"""What is sent, and what is refused before it is sent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.wire.streams import ASK, READ
from widelane.errors import BadRequest, UsageError
from widelane.records import ChatRequest
from widelane.wire.request_body import encode_body, request_fields, safe_history

HI = {"role": "user", "content": "Hi"}


def test_a_plain_call_asks_for_a_stream_with_usage_and_nothing_else() -> None:
    assert request_fields(ASK, "m") == {
        "model": "m",
        "messages": [HI],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert "stream_options" not in request_fields(replace(ASK, stream=False), "m")
    assert "stream_options" not in request_fields(ASK, "m", include_usage=False)
    assert "model" not in request_fields(ASK, None)


def test_every_field_has_its_name_in_the_body_and_extra_comes_last() -> None:
    request = ChatRequest(
        messages=[HI], model="own", max_tokens=8, temperature=0.0, top_p=0.9, seed=1, stop=["x"], n=2, tools=[READ],
        tool_choice="auto", response_format={"type": "json_object"}, logprobs=True,
        extra={"grammar": "g", "max_tokens": 9},
    )  # fmt: skip
    fields = request_fields(request, "m")
    assert fields["model"] == "own"
    assert fields["temperature"] == 0.0
    assert fields["max_tokens"] == 9
    assert fields["grammar"] == "g"
    assert {"top_p", "seed", "stop", "n", "tools", "tool_choice", "response_format", "logprobs"} <= set(fields)


def test_a_prompt_goes_to_completions_with_its_kind_of_logprobs() -> None:
    fields = request_fields(ChatRequest(prompt="Once", logprobs=True), "m")
    assert (fields["prompt"], fields["logprobs"]) == ("Once", 1)
    assert "messages" not in fields


@pytest.mark.parametrize("request_", [ChatRequest(), ChatRequest(messages=[HI], prompt="Hi")])
def test_neither_or_both_of_messages_and_prompt_is_refused(request_: ChatRequest) -> None:
    with pytest.raises(UsageError):
        request_fields(request_, "m")


def turn(arguments: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "function": {"name": "read", "arguments": arguments}}],
    }


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [('{"path": "a"}', {"path": "a"}), ({"path": "a"}, {"path": "a"}), ("", {}), (None, {}), ("  ", {})],
)
def test_every_call_in_the_history_is_sent_with_a_json_object(arguments: Any, sent: Any) -> None:
    (message,) = safe_history([turn(arguments)])
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == sent
    assert message["tool_calls"][0]["id"] == "a"


@pytest.mark.parametrize("arguments", ['{"cmd": "mkdir', "ls", "[1]", "3", 3])
def test_broken_arguments_in_the_history_are_refused_by_place(arguments: Any) -> None:
    with pytest.raises(BadRequest, match=r"messages\[1\]\.tool_calls\[0\]") as refused:
        safe_history([HI, turn(arguments)])
    assert refused.value.hint


def test_what_is_no_json_is_refused_clearly() -> None:
    for field in (object(), "\ud800", {1, object()}):
        with pytest.raises(UsageError, match="JSON"):
            encode_body({"field": field})
