"""An answer is what stands in the body: nothing is moved, nothing is repaired, and no body makes it fail."""

from __future__ import annotations

import pytest

from tests.measure.probes.recorded import Recorded, all_recorded, recorded
from widelane.measure.probes.answer import Answer, answer_of
from widelane.records import HttpReply

CHATS = [item for item in all_recorded() if item.path.endswith(("/chat/completions", "/v1/completions"))]


@pytest.mark.parametrize("item", CHATS, ids=lambda item: item.name)
def test_every_recorded_reply_is_read_as_an_answer_or_as_an_error(item: Recorded) -> None:
    answer = item.answer
    assert answer.status == item.reply.status
    assert (answer.error is not None) == (answer.status >= 400 or b'"error"' in item.reply.body)
    if answer.error is None:
        assert answer.choices >= 1
        assert answer.finish is not None


def test_thinking_is_found_under_both_of_its_names() -> None:
    assert recorded("llama_cpp/template_qwen3/forced_think_text.json").reasoning == "I think.\n"
    assert recorded("vllm/seqs2/chat_plain_with_reasoning_parser.json").reasoning == "The capital of France is Paris."


def test_a_leak_is_left_where_it_stands() -> None:
    content = "<think>\nI think.\n</think>\n\nHello."
    assert recorded("vllm/default/forced_think_text_no_parser.json").content == content
    assert recorded("llama_cpp/functional/forced_think_text.json").content == content


def test_a_stream_is_put_together_from_its_fragments() -> None:
    answer = recorded("vllm/parsers_hermes/forced_hermes_text_stream.sse")
    assert answer.streamed
    assert answer.done
    assert answer.tool_calls == (("get_weather", '{"city": "Paris"}'),)
    assert answer.finish == "tool_calls"


def test_reused_tokens_are_read() -> None:
    assert recorded("llama_cpp/functional/prefix_2.json").cached_tokens == 249


def test_all_choices_are_counted_whole_and_streamed() -> None:
    assert recorded("vllm/default/chat_n4.json").choices == 4
    assert recorded("vllm/default/chat_n2_stream.sse").choices == 2
    assert recorded("mlx_lm/chat_n3.json").choices == 1


def test_an_error_under_http_200_is_an_error() -> None:
    answer = recorded("vllm/engine_death/stream_cut_by_engine_death.sse")
    assert answer.status == 200
    assert answer.error is not None
    assert "EngineCore encountered an issue" in answer.error
    assert answer.finish is None
    assert answer.done


def test_a_last_event_without_its_blank_line_is_read() -> None:
    body = b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}'
    answer = answer_of(HttpReply(200, {"content-type": "text/event-stream"}, body))
    assert (answer.content, answer.finish, answer.done) == ("Hi", "stop", False)


def test_a_comment_is_no_event() -> None:
    answer = answer_of(HttpReply(200, {}, b": keepalive 1/2\n\ndata: [DONE]\n\n"))
    assert answer == Answer(status=200, streamed=True, done=True)


@pytest.mark.parametrize("body", [b"", b"<html>busy</html>", b"[1, 2]", b"\xff\xfe"])
def test_a_body_of_another_kind_is_an_error(body: bytes) -> None:
    assert answer_of(HttpReply(200, {}, body)).error is not None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "no", "code": 400}}', "no"),
        (b'{"error": "no such model"}', "no such model"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"message": "Unauthorized"}', "Unauthorized"),
    ],
)
def test_the_usual_forms_of_an_error_give_its_message(body: bytes, message: str) -> None:
    assert answer_of(HttpReply(404, {}, body)).error == message
