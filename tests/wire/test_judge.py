"""Which whole replies are no usable answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.wire.streams import ASK
from widelane.errors import BudgetSpentOnReasoning, EmptyAnswer, PromptTruncated, ServerFailed
from widelane.records import CallTiming, Reply, ToolCall, Usage, UsageOrigin
from widelane.wire.judge import judge

TIMING = CallTiming(sent_ns=0, headers_ns=1, first_token_ns=2, ended_ns=3, chunk_ns=(2,))
GOOD = Reply(text="Hello", finish="stop", usage=Usage(9, 2), timing=TIMING, choices=("Hello",))
EMPTY = replace(GOOD, text="", choices=("",))


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        replace(GOOD, finish="length"),
        replace(EMPTY, tool_calls=(ToolCall("a", "read", {}),)),
        replace(EMPTY, tool_error="arguments are not complete JSON"),
        replace(EMPTY, choices=("", "second")),
        replace(GOOD, usage=None),
        replace(GOOD, finish="content_filter"),
    ],
)
def test_an_answer_a_call_and_a_broken_call_are_usable(reply: Reply) -> None:
    assert judge(ASK, reply) is None


@pytest.mark.parametrize("text", ["", "  \n"])
def test_nothing_at_all_is_no_answer(text: str) -> None:
    error = judge(ASK, replace(GOOD, text=text, choices=(text,)))
    assert isinstance(error, EmptyAnswer)
    assert error.partial is not None


def test_the_hint_of_an_empty_answer_names_the_likely_reason() -> None:
    def hint(reply: Reply) -> str:
        error = judge(ASK, reply)
        assert error is not None
        return error.hint or ""

    assert "context" in hint(replace(EMPTY, usage=Usage(36000, 0)))
    assert "parser" in hint(replace(EMPTY, usage=Usage(9, 40)))
    assert "template" in hint(EMPTY)
    assert "thinking" in hint(replace(EMPTY, reasoning="All of it."))


def test_reasoning_that_took_the_whole_budget_is_said_to_have() -> None:
    thought = replace(EMPTY, reasoning="long thought", finish="length")
    assert isinstance(judge(ASK, thought), BudgetSpentOnReasoning)
    at_limit = replace(thought, finish="unknown", usage=Usage(9, 64))
    assert isinstance(judge(replace(ASK, max_tokens=64), at_limit), BudgetSpentOnReasoning)
    assert isinstance(judge(replace(ASK, max_tokens=65), at_limit), EmptyAnswer)


def test_far_fewer_prompt_tokens_than_characters_allow_is_a_cut_prompt() -> None:
    long = replace(ASK, messages=[{"role": "user", "content": "word " * 24_000}])  # 120,000 characters
    cut = replace(GOOD, usage=Usage(2051, 8))
    assert isinstance(judge(long, cut), PromptTruncated)
    assert judge(long, replace(GOOD, usage=Usage(24_011, 8))) is None
    parts = [{"type": "text", "text": "word " * 24_000}, {"type": "image_url", "image_url": {"url": "data:"}}]
    assert isinstance(judge(replace(ASK, messages=[{"role": "user", "content": parts}]), cut), PromptTruncated)
    assert isinstance(judge(replace(ASK, messages=(), prompt="word " * 24_000), cut), PromptTruncated)


def test_a_cut_prompt_is_not_concluded_from_weak_evidence() -> None:
    long = replace(ASK, messages=[{"role": "user", "content": "word " * 24_000}])
    assert judge(long, replace(GOOD, usage=Usage(7, 8))) is None, "only the uncached rest was counted"
    assert judge(long, replace(GOOD, usage=Usage(900, 8, cached_tokens=23_000))) is None
    assert judge(long, replace(GOOD, usage=Usage(None, 8, origin=UsageOrigin.COUNTED))) is None
    blank = replace(ASK, messages=[{"role": "user", "content": "x" + " " * 100_000}])
    assert judge(blank, replace(GOOD, usage=Usage(1600, 8))) is None, "a token may hold a whole run of spaces"


@pytest.mark.parametrize("finish", ["error", "abort"])
def test_a_reply_that_the_server_broke_off_is_a_failure(finish: str) -> None:
    assert isinstance(judge(ASK, replace(GOOD, finish=finish)), ServerFailed)
