"""Thought and answer are parted at the head of the text, and only there."""

from __future__ import annotations

import pytest

from widelane.wire.reasoning import split_reasoning


@pytest.mark.parametrize(
    ("text", "answer", "thought"),
    [
        ("<think>\nplan\n</think>\n\nHello", "Hello", "plan"),
        ("\n<think>plan</think>Hello", "Hello", "plan"),
        ("plan first</think>Hello", "Hello", "plan first"),
        ("</think>\n\nHello", "Hello", ""),
        ("<think>\n<think>\nplan</think>Hello", "Hello", "plan"),
        ("<think></think>Hello", "Hello", ""),
        ("<thinking>plan</thinking>Hello", "Hello", "plan"),
        ("[THINK]plan[/THINK]Hello", "Hello", "plan"),
        ("◁think▷plan◁/think▷Hello", "Hello", "plan"),
        ("<seed:think>plan</seed:think>Hello", "Hello", "plan"),
        ("<|START_THINKING|>plan<|END_THINKING|>Hello", "Hello", "plan"),
        ("<|channel>thought\nplan<channel|>Hello", "Hello", "plan"),
        (
            "<|channel|>analysis<|message|>plan<|end|><|start|>assistant<|channel|>final<|message|>Hello<|return|>",
            "Hello",
            "plan",
        ),
    ],
)
def test_a_leaked_thought_is_split_off(text: str, answer: str, thought: str) -> None:
    split = split_reasoning(text)
    assert (split.text, split.reasoning, split.leaked, split.unfinished) == (answer, thought, True, False)


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        "",
        "The tag `</think>` ends a thought.",
        'Write "</think>" there.',
        "```xml\n<think>a</think>\n```",
        "First, an answer. <think>Not at the head.</think> Then more.",
    ],
)
def test_a_tag_in_code_or_quotes_is_part_of_the_answer(text: str) -> None:
    assert split_reasoning(text) == (text, "", False, False)


def test_an_unfinished_thought_is_no_answer() -> None:
    assert split_reasoning("<think>I start to") == ("", "I start to", True, True)


def test_what_the_server_parsed_is_not_parsed_again() -> None:
    assert split_reasoning("See </think> here", parsed=True).text == "See </think> here"
    assert split_reasoning("</think>\n\nHello", parsed=True) == ("Hello", "", True, False)
