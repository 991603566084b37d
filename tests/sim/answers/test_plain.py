"""The answerer of a server that nobody told what to say."""

import pytest

from tests.sim.answers.asking import ask, rng
from widelane.records import ChatRequest
from widelane.sim.answers.lengths import Fixed
from widelane.sim.answers.plain import PlainAnswers

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"]},
    },
}


def test_prose_of_the_stated_length() -> None:
    answer = PlainAnswers(lengths=Fixed(50))(ask("Tell me something."), rng())

    assert answer.output_tokens == 50
    assert len(answer.text) == 200  # four characters a token
    assert answer.finish == "stop"


@pytest.mark.parametrize(
    "request_",
    [
        ask("What is the weather? Call the tool.", tools=[WEATHER]),
        ask("Hello.", tools=[WEATHER], tool_choice="required"),
        ask("Hello.", tools=[WEATHER], tool_choice={"type": "function", "function": {"name": "get_weather"}}),
        ask("Hello.", tools=[WEATHER], tool_choice={"type": "function", "name": "get_weather"}),
        ask("Hello.", tools=[WEATHER["function"]], tool_choice="required"),
    ],
)
def test_a_tool_is_called_when_it_is_demanded_or_asked_for(request_: ChatRequest) -> None:
    answer = PlainAnswers()(request_, rng())

    assert [(call.name, call.arguments) for call in answer.tool_calls] == [("get_weather", {"city": "Paris"})]
    assert answer.finish == "tool_calls"


@pytest.mark.parametrize(
    "request_",
    [ask("Hello.", tools=[WEATHER]), ask("Call the tool.", tools=[WEATHER], tool_choice="none"), ask("Call the tool.")],
)
def test_and_not_otherwise(request_: ChatRequest) -> None:
    assert PlainAnswers()(request_, rng()).tool_calls == ()


def test_thinking_is_counted_within_the_output() -> None:
    answer = PlainAnswers(lengths=Fixed(50), thinking=Fixed(30))(ask("Hello."), rng())

    assert (answer.output_tokens, answer.reasoning_tokens, len(answer.reasoning)) == (80, 30, 120)


@pytest.mark.parametrize(
    "extra",
    [
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"chat_template_kwargs": {"thinking": False}},
        {"reasoning_effort": "none"},
        {"think": False},
        {"reasoning_budget": 0},
    ],
)
def test_every_switch_for_thinking_is_obeyed(extra: dict[str, object]) -> None:
    answer = PlainAnswers(lengths=Fixed(50), thinking=Fixed(30))(ask("Hello.", extra=extra), rng())

    assert (answer.output_tokens, answer.reasoning) == (50, "")
