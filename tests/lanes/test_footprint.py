"""Tokens reserved for a call before it is sent."""

from widelane.lanes.footprint import DEFAULT_OUTPUT_TOKENS, ENOUGH_CALLS, Footprints, prompt_tokens
from widelane.records import ChatRequest


def test_a_prompt_is_its_own_estimate_or_four_characters_a_token():
    assert prompt_tokens(ChatRequest(prompt="x" * 400)) == 100
    assert prompt_tokens(ChatRequest(prompt="x" * 400, prompt_tokens_estimate=7)) == 7


def test_all_texts_of_the_messages_and_the_tools_count():
    parts = [{"role": "user", "content": [{"type": "text", "text": "x" * 392}]}]  # user, text: 8 more characters
    assert prompt_tokens(ChatRequest(messages=parts)) == 100
    tool = {"type": "function", "function": {"name": "read"}}  # 48 characters of JSON
    assert prompt_tokens(ChatRequest(messages=parts, tools=[tool])) == 112


def test_max_tokens_is_reserved_where_it_is_stated_and_once_a_choice():
    assert Footprints().tokens(ChatRequest(prompt="x" * 40, max_tokens=90)) == 100
    assert Footprints().tokens(ChatRequest(prompt="x" * 40, max_tokens=90, n=2)) == 190


def test_without_max_tokens_a_typical_answer_is_reserved_once_it_is_known():
    footprints = Footprints()
    request = ChatRequest(prompt="x" * 40)
    assert footprints.tokens(request) == 10 + DEFAULT_OUTPUT_TOKENS
    for output in range(ENOUGH_CALLS):
        footprints.learn(10, 10, 100 if output % 2 else 50)
    assert footprints.tokens(request) == 110


def test_a_language_with_more_tokens_a_character_raises_the_estimate():
    footprints = Footprints()
    for _ in range(ENOUGH_CALLS):
        footprints.learn(10, 30, 1)
    assert footprints.tokens(ChatRequest(prompt="x" * 40, max_tokens=5)) == 35
