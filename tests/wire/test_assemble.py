"""A reply from its chunks: what each kind of server sends, and what is made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.wire.streams import ASK, DONE, READ, event, raw_event, read_stream, read_whole, says
from widelane.errors import (
    ContextOverflow,
    MalformedReply,
    NotAModelServer,
    PoolOverflow,
    Repetition,
    ServerFailed,
    ServerOverloaded,
    TruncatedStream,
)
from widelane.records import Delta, ToolCall, Usage, UsageOrigin
from widelane.wire.assemble import ReplyAssembler, Step

COUNTS = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
ROLE = event({"role": "assistant", "content": ""})


def payload(event_bytes: bytes) -> bytes:
    return event_bytes[6:-2]


# --- text, finish and counts


def test_text_is_joined_and_the_finish_reason_and_usage_are_read() -> None:
    usage = raw_event({"choices": [], "usage": COUNTS})
    reply = read_stream(
        [ROLE, event({"content": "Hello"}), event({"content": " world"}), event(finish="stop"), usage, DONE]
    )
    assert (reply.text, reply.finish, reply.warnings, reply.choices) == ("Hello world", "stop", (), ("Hello world",))
    assert reply.usage == Usage(9, 2)
    assert reply.model == "m"


@pytest.mark.parametrize("choices", [[], None])
def test_a_usage_chunk_may_have_no_choices(choices: Any) -> None:
    assert read_stream(
        [says("a")[: -len(DONE)], raw_event({"choices": choices, "usage": COUNTS}), DONE]
    ).usage == Usage(9, 2)


def test_of_several_usage_counts_the_last_holds() -> None:
    first = event({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": 1})
    last = event({"content": "b"}, "stop", usage=COUNTS)
    assert read_stream([first, last, event(usage=None), DONE]).usage == Usage(9, 2)


def test_details_of_usage_are_read_under_both_names() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 5}, "completion_tokens_details": {"reasoning_tokens": 1}}
    assert read_stream([says("a"), raw_event({"choices": [], "usage": {**COUNTS, **details}})]).usage == Usage(
        9, 2, 5, 1
    )
    renamed = {"input_tokens": 9, "output_tokens": 2, "prompt_tokens_details": None}
    assert read_stream([says("a"), raw_event({"choices": [], "usage": renamed})]).usage == Usage(9, 2)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}])
def test_without_usage_the_events_with_output_are_counted(usage: Any) -> None:
    stream = [ROLE, event({"content": "a"}), event({"content": "b"}), event(finish="stop", usage=usage), DONE]
    assert read_stream(stream).usage == Usage(None, 2, origin=UsageOrigin.COUNTED)


def test_counts_left_at_nought_are_no_counts() -> None:
    stream = [event({"content": "a"}), event(finish="stop", usage={"prompt_tokens": 9, "completion_tokens": 0}), DONE]
    assert read_stream(stream).usage == Usage(9, 1, origin=UsageOrigin.COUNTED)


def test_llama_cpps_timings_stand_in_for_usage() -> None:
    timings = {"prompt_n": 1, "cache_n": 35, "predicted_n": 24}
    reply = read_stream([event({"content": "a"}), event(finish="stop", timings=timings), DONE])
    assert reply.usage == Usage(36, 24, cached_tokens=35)
    assert reply.server_timings == timings


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", "stop"),
        ("eos_token", "stop"),
        ("MAX_TOKENS", "length"),
        ("tool_use", "tool_calls"),
        ({"type": "length"}, "length"),
    ],
)
def test_other_words_for_the_finish_reason_are_understood(word: Any, finish: str) -> None:
    assert read_stream([event({"content": "a"}), event(finish=word), DONE]).finish == finish


@pytest.mark.parametrize("reason", [None, "", "null"])
def test_without_a_finish_reason_done_ends_the_reply_and_is_noted(reason: str | None) -> None:
    reply = read_stream([event({"content": "a"}), event({}, reason), DONE])
    assert (reply.text, reply.finish, reply.warnings) == ("a", "unknown", ("no_finish_reason",))


def test_a_finish_reason_without_done_ends_the_reply() -> None:
    assert read_stream([event({"content": "a"}), event(finish="stop")]).warnings == ()


def test_done_without_its_last_newline_counts_when_the_body_ends_properly() -> None:
    assert read_stream([event({"content": "a"}), b"data: [DONE]"]).text == "a"


def test_an_end_without_finish_or_done_is_a_truncation() -> None:
    with pytest.raises(TruncatedStream) as failed:
        read_stream([ROLE, event({"content": "a"})])
    assert failed.value.partial is not None
    assert failed.value.partial.text == "a"


# --- shapes of a delta


@pytest.mark.parametrize(
    "chunk",
    [
        event({"content": "Hi"}),
        event({"role": "assistant", "content": "Hi"}),
        event({"content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}),
        event({"content": {"type": "text", "text": "Hi"}}),
        event({"content": ["Hi"]}),
        event("Hi"),
        raw_event({"choices": [{"index": 0, "text": "Hi", "finish_reason": None}]}),
        raw_event({"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}),
        raw_event({"choices": [{"index": None, "delta": {"content": "Hi"}}]}),
        raw_event({"choices": [None, {"delta": {"content": "Hi"}}]}),
    ],
)
def test_text_comes_in_many_shapes(chunk: bytes) -> None:
    assert read_stream([chunk, event(finish="stop"), DONE]).text == "Hi"


@pytest.mark.parametrize(
    "noise",
    [
        raw_event({"choices": [{"index": 0, "delta": None, "finish_reason": None}]}),
        raw_event({"choices": "?"}),
        raw_event({"type": "ping"}),
        raw_event({"object": "prefill.progress", "done": 3}),
        raw_event([1, 2]),
        raw_event(None),
        b"data: ping\n\n",
        b"data:\n\n",
        b": comment\n\n",
    ],
)
def test_what_is_no_output_is_passed_over(noise: bytes) -> None:
    assert read_stream([noise, event({"content": "Hi"}), noise, event(finish="stop"), noise, DONE]).text == "Hi"


def test_a_final_whole_message_behind_the_deltas_is_not_added_again() -> None:
    last = raw_event({"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]})
    assert read_stream([event({"content": "Hi"}), last, DONE]).text == "Hi"


def test_surrogate_halves_in_two_chunks_make_one_character() -> None:
    parts = [
        b'data: {"choices":[{"delta":{"content":"\\ud83c"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\udf0d"}}]}\n\n',
    ]
    assert read_stream([*parts, event(finish="stop"), DONE]).text == "\N{EARTH GLOBE EUROPE-AFRICA}"


def test_bytes_that_are_no_utf8_are_replaced_and_nan_is_let_through() -> None:
    odd = b'data: {"choices":[{"delta":{"content":"a\xffb"},"logprobs":{"content":[{"logprob":-Infinity}]}}]}\n\n'
    assert read_stream([odd, event(finish="stop"), DONE]).text == "a\ufffdb"


def test_events_parted_by_single_newlines_are_read_apart() -> None:
    joined = event({"content": "a"})[:-1] + event({"content": "b"})[:-1] + event(finish="stop")
    assert read_stream([joined, DONE]).text == "ab"


# --- reasoning


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_has_many_names(field: str) -> None:
    stream = [event({"role": "assistant", field: "think "}), event({field: "more"}), says("Hello")]
    reply = read_stream(stream)
    assert (reply.text, reply.reasoning, reply.warnings) == ("Hello", "think more", ())


def test_reasoning_sent_under_two_names_is_taken_once() -> None:
    assert read_stream([event({"reasoning": "plan", "reasoning_content": "plan"}), says("a")]).reasoning == "plan"


def test_thinking_parts_of_a_content_list_are_reasoning() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "plan"}]}
    reply = read_stream([event({"content": [thought]}), says("Hello")])
    assert (reply.text, reply.reasoning) == ("Hello", "plan")


def test_a_leaked_thought_is_split_off_and_noted() -> None:
    reply = read_stream([event({"content": "<thi"}), event({"content": "nk>plan</think>\n\nHel"}), says("lo")])
    assert (reply.text, reply.reasoning, reply.warnings) == ("Hello", "plan", ("reasoning_in_content",))


def test_an_unfinished_thought_gives_no_text_and_no_calls() -> None:
    text = '<think>Maybe <tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'
    reply = read_stream([says(text, finish="length")], replace(ASK, tools=[READ]))
    assert (reply.text, reply.tool_calls) == ("", ())
    assert "tool_call_recovered" not in reply.warnings


# --- tools


def test_a_streamed_call_is_assembled_whatever_the_finish_reason() -> None:
    call = {"index": 0, "id": "a1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}}
    reply = read_stream([event({"tool_calls": [call]}), event(finish="stop"), DONE])
    assert reply.tool_calls == (ToolCall("a1", "read", {"path": "a"}),)


def test_the_old_function_call_field_is_a_call() -> None:
    parts = [
        event({"function_call": {"name": "read", "arguments": ""}}),
        event({"function_call": {"arguments": '{"path":"a"}'}}),
    ]
    assert read_stream([*parts, event(finish="function_call"), DONE]).tool_calls[0].arguments == {"path": "a"}


def test_a_call_left_in_the_text_is_recovered_only_when_tools_were_offered() -> None:
    text = 'I will.\n<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'
    reply = read_stream([says(text)], replace(ASK, tools=[READ]))
    assert (reply.text, reply.tool_calls[0].name, reply.warnings) == ("I will.", "read", ("tool_call_recovered",))
    assert read_stream([says(text)]).text == text


def test_a_call_that_came_properly_is_not_looked_for_in_the_text() -> None:
    call = {"index": 0, "id": "a1", "function": {"name": "read", "arguments": "{}"}}
    text = '<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'
    reply = read_stream(
        [event({"content": text, "tool_calls": [call]}), event(finish="tool_calls"), DONE], replace(ASK, tools=[READ])
    )
    assert len(reply.tool_calls) == 1
    assert reply.text == text


# --- several choices, logprobs


def test_interleaved_choices_are_kept_apart() -> None:
    def of(index: int, text: str | None, finish: str | None = None) -> bytes:
        return raw_event({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]})

    stream = [of(0, "a"), of(1, "x"), of(0, "b"), of(1, "y"), of(1, None, "stop"), of(0, None, "length"), DONE]
    reply = read_stream(stream, replace(ASK, n=2))
    assert (reply.choices, reply.text, reply.finish, reply.warnings) == (("ab", "xy"), "ab", "length", ())


def test_fewer_choices_than_asked_for_are_noted() -> None:
    assert read_stream([says("a")], replace(ASK, n=3)).warnings == ("n_ignored",)


def test_logprobs_are_joined_and_their_absence_is_noted() -> None:
    def with_logprobs(token: str) -> bytes:
        return raw_event({"choices": [{"delta": {"content": token}, "logprobs": {"content": [{"token": token}]}}]})

    request = replace(ASK, logprobs=True)
    stream = [with_logprobs("a"), with_logprobs("b"), event(finish="stop"), DONE]
    assert read_stream(stream, request).logprobs == {"content": [{"token": "a"}, {"token": "b"}]}
    reply = read_stream([says("a")], request)
    assert (reply.logprobs, reply.warnings) == (None, ("logprobs_missing",))


@pytest.mark.parametrize(
    ("text", "noted"), [('{"a": 1}', False), ("Sure! Here it is.", True), ("```json\n{}\n```", True)]
)
def test_prose_where_json_was_to_be_enforced_is_noted(text: str, noted: bool) -> None:
    reply = read_stream([says(text)], replace(ASK, response_format={"type": "json_object"}))
    assert ("schema_not_enforced" in reply.warnings) == noted


# --- errors in a stream


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [
        (raw_event({"error": {"message": "engine failed", "type": "InternalServerError", "code": 500}}), ServerFailed),
        (raw_event({"error": "something broke"}), ServerFailed),
        (raw_event({"object": "error", "message": "engine failed", "code": 500}), ServerFailed),
        (raw_event({"choices": [], "error": {"message": "overloaded", "type": "overloaded_error"}}), ServerOverloaded),
        (
            raw_event({"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}),
            PoolOverflow,
        ),
        (b'event: error\ndata: {"message": "engine failed"}\n\n', ServerFailed),
        (b"event: error\ndata: engine failed\n\n", ServerFailed),
        (b'error: {"code": 500, "message": "boom", "type": "server_error"}\n\n', ServerFailed),
    ],
)
def test_an_error_event_fails_the_attempt_whatever_the_status_was(chunk: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind) as failed:
        read_stream([ROLE, event({"content": "Hello"}), chunk, DONE])
    assert getattr(failed.value, "partial").text == "Hello"  # noqa: B009 - the kinds share it through their base


def test_half_an_event_is_none() -> None:
    with pytest.raises(MalformedReply):
        read_stream([event({"content": "a"}), b'data: {"choices":[{"delta":{"conte\n\n'])


# --- limits the client keeps


def steps(request: Any, chunks: list[bytes]) -> list[Step]:
    assembler = ReplyAssembler(request)
    return [assembler.feed(payload(chunk), t_ns) for t_ns, chunk in enumerate(chunks)]


def test_past_max_tokens_and_a_margin_the_fuse_blows() -> None:
    chunk = event({"content": "x "})
    seen = steps(replace(ASK, max_tokens=16), [chunk] * 40)
    assert seen.index(Step.FUSE) == 32  # 16 and a margin of 16 are allowed, the next is too many
    seen = steps(replace(ASK, max_tokens=800), [chunk] * 1000)
    assert seen.index(Step.FUSE) == 900


def test_a_blown_fuse_makes_the_finish_length_and_is_noted() -> None:
    assembler = ReplyAssembler(replace(ASK, max_tokens=4))
    while assembler.feed(payload(event({"content": "word "})), 0) is not Step.FUSE:
        pass
    reply = assembler.result()
    assert (reply.finish, reply.warnings) == ("length", ("max_tokens_ignored",))


def test_a_proxy_that_cuts_text_into_letters_does_not_blow_the_fuse() -> None:
    letters = [
        event({"content": letter}) for letter in "Sixteen tokens of English, cut into letters, are many more events."
    ]
    assert Step.FUSE not in steps(replace(ASK, max_tokens=16), letters)


def test_usage_far_above_max_tokens_is_noted() -> None:
    usage = raw_event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 500}})
    assert read_stream([says("a"), usage], replace(ASK, max_tokens=16)).warnings == ("max_tokens_ignored",)


def test_an_endless_repetition_ends_the_attempt_and_raw_requests_are_let_be() -> None:
    chunks = [event({"content": "and so on and so forth, "})] * 4000
    with pytest.raises(Repetition) as failed:
        steps(ASK, chunks)
    assert failed.value.partial is not None
    assert failed.value.partial.text.startswith("and so on and so forth, and so on")
    assert len(steps(replace(ASK, raw=True), chunks)) == 4000


def test_repeated_reasoning_and_arguments_are_repetitions_too() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "na na na na "}}
    for delta in ({"reasoning": "Wait, let me check that again. "}, {"tool_calls": [call]}):
        with pytest.raises(Repetition):
            steps(ASK, [event(delta)] * 4000)


# --- what is told on the way


def test_every_chunk_with_output_is_stamped_and_shown() -> None:
    seen: list[Delta] = []
    assembler = ReplyAssembler(ASK, seen.append)
    stream = [ROLE, event({"reasoning": "hm"}), event({"content": "a"}), event({"content": "b"}), event(finish="stop")]
    taken = [assembler.feed(payload(chunk), 100 + t_ns) for t_ns, chunk in enumerate(stream)]
    assert taken == [Step.EVENT, Step.OUTPUT, Step.OUTPUT, Step.OUTPUT, Step.FINISH]
    assert seen == [Delta(101, "", "hm"), Delta(102, "a"), Delta(103, "b")]
    timing = assembler.result().timing
    assert (timing.first_token_ns, timing.chunk_ns, timing.ended_ns) == (101, (101, 102, 103), 104)


# --- unstreamed replies


def whole(message: Any, finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **fields}


def test_a_json_body_instead_of_a_stream_is_accepted_and_noted() -> None:
    reply = read_whole(whole({"content": "Hello world"}, usage=COUNTS))
    assert (reply.text, reply.warnings, reply.timing.streamed) == ("Hello world", ("not_streamed",), False)
    assert reply.timing.first_token_ns is None
    assert read_whole(whole({"content": "Hello world"}), replace(ASK, stream=False)).warnings == ()


def test_whole_calls_stay_apart_whatever_their_index() -> None:
    calls = [{"index": 0, "id": i, "function": {"name": "read", "arguments": {"path": i}}} for i in "ab"]
    reply = read_whole(whole({"content": None, "tool_calls": calls}, "tool_calls"))
    assert [call.arguments for call in reply.tool_calls] == [{"path": "a"}, {"path": "b"}]


def test_choices_that_are_all_number_0_stay_apart() -> None:
    body = {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"} for text in "ab"]}
    assert read_whole(body, replace(ASK, n=2)).choices == ("a", "b")


def test_a_completions_body_is_read() -> None:
    body = {"choices": [{"index": 0, "text": " world", "finish_reason": "length", "logprobs": None}]}
    assert read_whole(body).text == " world"


def test_an_error_in_a_body_under_200_is_the_error_it_is() -> None:
    words = "the request exceeds the available context size"
    error = {"message": words, "type": "exceed_context_size_error", "n_prompt_tokens": 14429, "n_ctx": 8192}
    with pytest.raises(ContextOverflow) as failed:
        read_whole({"error": error})
    assert (failed.value.n_prompt, failed.value.n_ctx) == (14429, 8192)


@pytest.mark.parametrize("body", [{}, {"status": "ok"}, {"choices": None}, {"data": []}])
def test_json_that_is_no_completion_is_not_taken_for_one(body: Any) -> None:
    with pytest.raises(NotAModelServer):
        read_whole(body)
