"""Scripts: the answer follows from what is said, never from who came first."""

from collections import Counter

import pytest

from tests.sim.answers.asking import ask, rng
from widelane.errors import UsageError
from widelane.records import ChatRequest
from widelane.sim.answers.lengths import Fixed
from widelane.sim.answers.script_file import parse_script
from widelane.sim.answers.scripted import Line, Pick, Rule, Scripted


def _conversation(*turns: str) -> ChatRequest:
    roles = ("user", "assistant")
    return ChatRequest(messages=[{"role": roles[i % 2], "content": text} for i, text in enumerate(turns)])


def test_the_first_rule_that_applies_answers() -> None:
    scripted = Scripted(
        [
            Rule(when="capital of France", lines=[Line(text="Paris.")]),
            Rule(when="capital", lines=[Line(text="I do not know.")]),
        ]
    )

    assert scripted(ask("What is the capital of France?"), rng()).text == "Paris."
    assert scripted(ask("What is the capital of Spain?"), rng()).text == "I do not know."


def test_without_a_rule_the_other_answerer_does() -> None:
    scripted = Scripted(
        [Rule(when="never", lines=[Line(text="x")])], otherwise=Scripted([Rule(lines=[Line(text="else")])])
    )

    assert scripted(ask("hello"), rng()).text == "else"


def test_lines_go_by_the_turn_of_the_conversation() -> None:
    scripted = Scripted([Rule(lines=[Line(text="first"), Line(text="second")])])

    assert scripted(_conversation("a"), rng()).text == "first"
    assert scripted(_conversation("a", "first", "b"), rng()).text == "second"
    assert scripted(_conversation("a", "first", "b", "second", "c"), rng()).text == "second"
    assert scripted(_conversation("a"), rng()).text == "first"  # whatever was asked in between


def test_the_models_own_words_do_not_trigger_a_rule() -> None:
    scripted = Scripted([Rule(when="Paris", lines=[Line(text="yes")])], otherwise=Scripted([Rule(lines=[Line()])]))

    assert scripted(_conversation("a", "Paris", "b"), rng()).text == ""


def test_samples_are_drawn_by_weight() -> None:
    rule = Rule(lines=[Line(text="heads", weight=3), Line(text="tails")], pick=Pick.CHANCE)
    said = Counter(Scripted([rule])(ask("Toss."), rng(seed)).text for seed in range(1000))

    assert said["heads"] == pytest.approx(750, abs=55)  # 4 standard errors
    assert said["heads"] + said["tails"] == 1000


def test_a_line_may_call_tools_and_think() -> None:
    line = Line(
        calls=[("read", {"path": "a.py"})], reasoning="I must read.", reasoning_tokens=Fixed(7), tokens=Fixed(20)
    )
    answer = Scripted([Rule(lines=[line])])(ask("Go."), rng())

    assert [(call.name, call.arguments) for call in answer.tool_calls] == [("read", {"path": "a.py"})]
    assert (answer.output_tokens, answer.reasoning_tokens, answer.reasoning) == (27, 7, "I must read.")


def test_thinking_that_is_switched_off_is_left_out() -> None:
    scripted = Scripted([Rule(lines=[Line(text="4", reasoning="2 and 2")])])
    answer = scripted(ask("2+2?", extra={"chat_template_kwargs": {"enable_thinking": False}}), rng())

    assert (answer.text, answer.reasoning, answer.output_tokens) == ("4", "", 1)


def test_message_parts_are_read() -> None:
    request = ChatRequest(messages=[{"role": "user", "content": [{"type": "text", "text": "capital"}]}])

    assert Scripted([Rule(when="capital", lines=[Line(text="yes")])])(request, rng()).text == "yes"


SCRIPT = """
{"answers": [{"when": "capital of France", "say": ["Paris."]},
             {"when": "dice", "pick": "chance", "say": ["one", {"text": "six", "weight": 0}]},
             {"when": "weather", "say": [{"calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]},
                                         {"text": "It rains.", "tokens": 20}]}],
 "otherwise": {"tokens": "40", "thinking_tokens": 10}}
"""


def test_a_script_file() -> None:
    scripted = parse_script(SCRIPT)

    assert scripted(ask("capital of France?"), rng()).text == "Paris."
    assert scripted(ask("Throw the dice."), rng()).text == "one"
    assert scripted(ask("How is the weather?"), rng()).tool_calls[0].arguments == {"city": "Paris"}
    assert scripted(_conversation("weather", "", "and?"), rng()).output_tokens == 20
    assert scripted(ask("Something else."), rng()).output_tokens == 50


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no script of answers"),
        ('{"answers": [{"say": ["x"], "wen": "y"}]}', r"unknown field `wen`.*answers\[0\]"),
        ('{"answers": [{"say": []}]}', "has nothing to say"),
        ('{"answers": [{"say": ["x"], "when": "("}]}', r"no regular expression: '\('"),
        ('{"answers": [{"say": [{"text": "x", "tokens": "some"}]}]}', "give tokens: 900"),
        ('{"answers": [{"say": [{"text": "x", "weight": -1}]}]}', "add up to nothing"),
    ],
)
def test_a_wrong_script_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        parse_script(text, "answers.json")

    assert str(refused.value).startswith("answers.json")
