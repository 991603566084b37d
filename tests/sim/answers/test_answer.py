"""What an answer may be."""

import pytest

from widelane.records import ToolCall
from widelane.sim.answers.answer import Answer, estimated_tokens


def test_an_answer_has_at_least_one_token() -> None:
    with pytest.raises(ValueError, match="at least one token, not 0"):
        Answer(output_tokens=0)


def test_reasoning_is_part_of_the_output() -> None:
    with pytest.raises(ValueError, match="11 reasoning tokens of 10 in all"):
        Answer(output_tokens=10, reasoning_tokens=11)


def test_the_finish_reason_tells_calls_from_text() -> None:
    assert Answer(text="yes", output_tokens=1).finish == "stop"
    assert Answer(tool_calls=(ToolCall("1", "read", {}),), output_tokens=9).finish == "tool_calls"


def test_four_characters_are_about_a_token() -> None:
    assert [estimated_tokens(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]
