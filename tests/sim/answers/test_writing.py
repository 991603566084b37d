"""An answer as it comes out of the server, token by token."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from widelane.records import ToolCall
from widelane.sim.answers.answer import Answer
from widelane.sim.answers.writing import Writing, cut_at, drawn_out, filler


def test_reasoning_comes_first_then_text() -> None:
    writing = Writing(Answer(reasoning="hmmm", text="yes!", output_tokens=4, reasoning_tokens=2))

    stages = [writing.until(tokens) for tokens in range(5)]

    assert [stage.reasoning for stage in stages] == ["", "hm", "hmmm", "hmmm", "hmmm"]
    assert [stage.text for stage in stages] == ["", "", "", "ye", "yes!"]


def test_tool_calls_come_last() -> None:
    call = ToolCall("1", "read", {"path": "a"})
    writing = Writing(Answer(text="ab", tool_calls=(call,), output_tokens=4), argument_chars=[6])

    assert [(stage.text, stage.tool_chars) for stage in map(writing.until, range(5))] == [
        ("", 0), ("ab", 0), ("ab", 2), ("ab", 4), ("ab", 6),
    ]  # fmt: skip


@given(
    text=st.text(max_size=60),
    reasoning=st.text(max_size=60),
    calls=st.lists(st.integers(0, 40), max_size=3),
    tokens=st.integers(1, 80),
    thought=st.integers(0, 80),
)
def test_nothing_is_lost_and_nothing_taken_back(
    text: str, reasoning: str, calls: list[int], tokens: int, thought: int
) -> None:
    answer = Answer(text=text, reasoning=reasoning, output_tokens=tokens, reasoning_tokens=min(thought, tokens))
    writing = Writing(answer, calls)
    stages = [writing.until(count) for count in range(tokens + 3)]

    for before, after in itertools.pairwise(stages):
        assert after.text.startswith(before.text)
        assert after.reasoning.startswith(before.reasoning)
        assert after.tool_chars >= before.tool_chars
    assert (stages[tokens].text, stages[tokens].reasoning, stages[tokens].tool_chars) == (text, reasoning, sum(calls))


def test_a_stop_string_cuts_the_text_and_is_left_out() -> None:
    answer = Answer(text="one two three four", output_tokens=18)

    cut = cut_at(answer, ["four", " three", ""])

    assert (cut.text, cut.output_tokens) == ("one two", 7)
    assert cut_at(answer, ["five"]) is answer


def test_an_answer_is_drawn_out_to_the_length_that_is_forced() -> None:
    answer = Answer(text="yes. ", output_tokens=2)

    longer = drawn_out(answer, 10)

    assert longer.output_tokens == 10
    assert longer.text.startswith("yes. The request")
    assert len(longer.text) == len("yes. ") + 8 * 4
    assert drawn_out(answer, 2) is answer


@given(tokens=st.integers(0, 500), start=st.integers(0, 10_000))
def test_filler_has_four_characters_a_token_and_starts_at_a_word(tokens: int, start: int) -> None:
    text = filler(tokens, start)

    assert len(text) == 4 * tokens
    assert not text[:1].isspace()
