"""A model that solves each problem with its stated probability."""

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.answers.asking import ask, rng
from widelane.errors import UsageError
from widelane.records import ChatRequest
from widelane.sim.answers.dataset.pass_rates import drawn_pass_rates
from widelane.sim.answers.dataset.rows import attempt_rates, problems_from_rows, with_attempts
from widelane.sim.answers.dataset.solver import DatasetSolver, Failing
from widelane.sim.answers.dataset.wrong_code import WrongWay
from widelane.sim.answers.lengths import Fixed

SUM = {"id": "sum", "prompt": "What is two plus two?", "answer": "4"}
CODE = "def double(x):\n    return 2 * x"
DOUBLE = {"id": "double", "prompt": "Double a number.", "entry_point": "double", "code": CODE}
PROBLEMS = problems_from_rows([SUM, DOUBLE])


def _code(text: str) -> str:
    return text.split("```python\n")[1].rsplit("```", 1)[0]


def test_a_right_answer_is_the_datasets_own() -> None:
    answer = DatasetSolver(PROBLEMS, 1.0)(ask("Question: What is two plus two?"), rng())

    assert (answer.text, answer.right) == ("4", True)
    assert _code(DatasetSolver(PROBLEMS, 1.0)(ask("Double a number."), rng()).text).strip() == CODE


@pytest.mark.parametrize(
    ("demand", "last"),
    [
        ("Put the answer in \\boxed{}.", "\\boxed{4}"),
        ("End with 'ANSWER: N'.", "ANSWER: 4"),
        ("End with #### N.", "#### 4"),
        ("Answer between [ANSWER] and [/ANSWER].", "[ANSWER]4[/ANSWER]"),
        ("", "4"),
    ],
)
def test_a_value_is_stated_in_the_form_that_is_asked_for(demand: str, last: str) -> None:
    answer = DatasetSolver(PROBLEMS, 1.0)(ask(f"What is two plus two? {demand}"), rng())

    assert answer.text.splitlines()[-1] == last


def test_problems_pass_as_often_as_stated() -> None:
    solver = DatasetSolver(PROBLEMS, {"sum": 0.3, "double": 0.0})
    right = Counter(solver(ask("What is two plus two?"), rng(seed)).right for seed in range(2000))

    assert right[True] == pytest.approx(600, abs=82)  # 4 standard errors
    assert not any(solver(ask("Double a number."), rng(seed)).right for seed in range(200))


@given(low=st.floats(0, 1), high=st.floats(0, 1), seed=st.integers(0, 10**6))
def test_a_higher_probability_only_turns_wrong_answers_right(low: float, high: float, seed: int) -> None:
    low, high = min(low, high), max(low, high)
    before = DatasetSolver(PROBLEMS, low)(ask("Double a number."), rng(seed))
    after = DatasetSolver(PROBLEMS, high)(ask("Double a number."), rng(seed))

    assert not before.right or after.right


def test_capability_bound_problems_fail_in_one_way() -> None:
    solver = DatasetSolver(PROBLEMS, 0.0)
    for text in ("Double a number.", "What is two plus two?"):
        assert len({solver(ask(text), rng(seed)).text for seed in range(30)}) == 1


def test_variance_bound_problems_fail_in_many_ways() -> None:
    solver = DatasetSolver(PROBLEMS, {"sum": 0.01, "double": 0.01})
    wrong = {answer.text for seed in range(60) if not (answer := solver(ask("Double a number."), rng(seed))).right}

    assert len(wrong) >= 10
    assert any("raise" in text for text in wrong)
    assert any("_slipped" in text for text in wrong)


def test_how_answers_fail_can_be_stated_for_each_problem() -> None:
    """A systematic error seals a vote: many samples, one wrong value."""
    solver = DatasetSolver(PROBLEMS, 0.2, failing={"sum": Failing.IDENTICAL})

    def wrong(text: str) -> set[str]:
        return {answer.text for seed in range(60) if not (answer := solver(ask(text), rng(seed))).right}

    assert len(wrong("What is two plus two?")) == 1
    assert len(wrong("Double a number.")) > 5


def test_the_ways_to_fail_can_be_chosen() -> None:
    solver = DatasetSolver(PROBLEMS, 0.0, failing=Failing.VARIED, ways=[WrongWay.ENDLESS])

    assert all("while True" in solver(ask("Double a number."), rng(seed)).text for seed in range(5))


def test_a_repair_has_its_own_probability() -> None:
    solver = DatasetSolver(PROBLEMS, 0.0, repair_probability=1.0)
    first = ask("Double a number.")
    wrong = solver(first, rng())
    said = [{"role": "assistant", "content": wrong.text}, {"role": "user", "content": "double(1) gave 3"}]
    repair = ChatRequest(messages=[*first.messages, *said])

    assert (wrong.right, solver(repair, rng()).right) == (False, True)


def test_the_problem_that_stands_last_is_the_one_that_is_asked() -> None:
    text = "Example: What is two plus two? 4.\nNow: Double  a\nnumber."

    assert "def double" in DatasetSolver(PROBLEMS, 1.0)(ask(text), rng()).text


def test_of_two_problems_that_begin_alike_the_longer_is_found() -> None:
    rows = [
        {"id": "a", "prompt": "Add numbers", "answer": "1"},
        {"id": "b", "prompt": "Add numbers twice", "answer": "2"},
    ]
    solver = DatasetSolver(problems_from_rows(rows), 1.0)

    assert solver(ask("Add numbers twice"), rng()).text == "2"
    assert solver(ask("Add numbers"), rng()).text == "1"


def test_of_two_problems_with_one_text_the_function_that_is_named_decides() -> None:
    rows = [
        {"id": n, "prompt": "Do it.", "entry_point": n, "code": f"def {n}():\n    return 1"} for n in ("one", "two")
    ]
    solver = DatasetSolver(problems_from_rows(rows), 1.0)

    assert "def two" in solver(ask("Do it.\nassert two() == 1"), rng()).text
    assert "def one" in solver(ask("Do it.\nassert one() == 1"), rng()).text


def test_a_request_about_something_else_goes_to_the_other_answerer() -> None:
    answer = DatasetSolver(PROBLEMS, 1.0)(ask("Tell me a story."), rng())

    assert answer.right is None


def test_answers_have_the_length_that_is_stated() -> None:
    solver = DatasetSolver(PROBLEMS, 0.5, lengths=Fixed(300), thinking=Fixed(100))
    for seed in range(20):
        answer = solver(ask("Double a number."), rng(seed))
        assert (answer.output_tokens, answer.reasoning_tokens) == (400, 100)
        assert len(answer.text) == pytest.approx(1200, abs=8)


def test_a_very_short_length_is_kept_too() -> None:
    assert DatasetSolver(PROBLEMS, 1.0, lengths=Fixed(1))(ask("Double a number."), rng()).output_tokens == 1


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        ({"sum": 0.5}, "'double' has no pass probability"),
        (1.5, "'sum' is 1.5; it must lie between 0 and 1"),
        (float("nan"), "must lie between 0 and 1"),
    ],
)
def test_impossible_probabilities_are_refused(rate: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DatasetSolver(PROBLEMS, rate)


def test_a_problem_without_a_known_answer_cannot_be_solved() -> None:
    rows = [{"question_id": "a", "question_content": "Read n.", "starter_code": ""}]
    with pytest.raises(UsageError, match="no right answer to it is known; add recorded answers"):
        DatasetSolver(problems_from_rows(rows), 0.5)
    assert DatasetSolver(problems_from_rows(rows), 0.0)(ask("Read n."), rng()).right is False


def test_recorded_answers_are_given_as_they_were() -> None:
    rows = [{"question_id": "a", "question_content": "Read n.", "starter_code": ""}]
    attempts = [{"question_id": "a", "output_list": ["good", "bad"], "graded_list": [True, False]}]
    solver = DatasetSolver(with_attempts(problems_from_rows(rows), attempts), attempt_rates(attempts))
    said = {(answer.right, answer.text) for seed in range(40) if (answer := solver(ask("Read n."), rng(seed)))}

    assert said == {(True, "good"), (False, "bad")}


@pytest.mark.parametrize("name", ["gsm8k/test.jsonl", "math500/test.jsonl", "aime/aime2025.jsonl"])
def test_on_real_problems_right_and_wrong_values_are_what_they_say(data_dir: Path, name: str) -> None:
    rows = msgspec.json.Decoder().decode_lines((data_dir / name).read_bytes())[:60]
    problems = problems_from_rows(rows)
    right, wrong = DatasetSolver(problems, 1.0), DatasetSolver(problems, 0.0, failing=Failing.VARIED)
    for place, problem in enumerate(problems):
        request = ask(f"Solve. End with 'ANSWER: X'.\n\n{problem.found_by[0]}")
        stated = [solver(request, random.Random(place)).text.rsplit("ANSWER: ", 1)[1] for solver in (right, wrong)]
        assert stated[0] == problem.key
        assert stated[1] != problem.key


def test_pass_rates_have_their_mean_and_their_share_out_of_reach() -> None:
    ids = [str(number) for number in range(4000)]
    rates = drawn_pass_rates(ids, mean=0.4, concentration=2.0, unreachable=0.25, seed=3)
    reachable = [rate for rate in rates.values() if rate > 0]

    assert len(reachable) == pytest.approx(3000, abs=110)  # 4 standard errors
    # Beta(0.8, 1.2): standard deviation sqrt(0.96 / (4 x 3)) = 0.283, so 4 standard errors are 0.021.
    assert sum(reachable) / len(reachable) == pytest.approx(0.4, abs=0.021)


def test_a_problems_rate_depends_on_nothing_but_itself() -> None:
    many = drawn_pass_rates(["a", "b", "c"], mean=0.5, seed=1)

    assert drawn_pass_rates(["c"], mean=0.5, seed=1)["c"] == many["c"]
    assert drawn_pass_rates(["a"], mean=1.0, seed=1) == {"a": 1.0}


@pytest.mark.parametrize(
    "fields", [{"mean": 1.1}, {"mean": 0.5, "unreachable": -0.1}, {"mean": 0.5, "concentration": 0}]
)
def test_pass_rates_out_of_range_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        drawn_pass_rates(["a"], seed=0, **fields)  # type: ignore[arg-type]


def test_wrong_numbers_never_stand_in_the_working(data_dir: Path) -> None:
    """Scorers that take the last number of a text must not find the right one in a wrong answer."""
    rows = msgspec.json.Decoder().decode_lines((data_dir / "gsm8k/test.jsonl").read_bytes())[:40]
    problems = problems_from_rows(rows)
    solver = DatasetSolver(problems, 0.0, lengths=Fixed(200))
    for problem in problems:
        text = solver(ask(problem.found_by[0]), rng()).text
        assert re.findall(r"-?\d[\d,]*", text)[-1] != problem.key
        assert len(re.findall(r"\d[\d,]*", text)) == 1


def test_every_exercise_of_every_language_is_found_by_its_instructions(data_dir: Path) -> None:
    folders = sorted((data_dir / "polyglot").glob("*/exercises/practice/*"))
    assert folders
    rows = []
    for folder in folders:
        config = msgspec.json.decode((folder / ".meta/config.json").read_bytes())
        code = "\n".join((folder / name).read_text() for name in config["files"]["example"])
        language = folder.parts[-4]
        prompt = (folder / ".docs/instructions.md").read_text()
        # One exercise stands in several tracks with the same words.
        rows.append({"id": f"{language}/{folder.name}", "prompt": f"In {language}: {prompt}", "code": code,
                     "language": language})  # fmt: skip
    problems = problems_from_rows(rows)
    right, wrong = DatasetSolver(problems, 1.0), DatasetSolver(problems, 0.0)

    for row in rows:
        request = ask(f"Use the instructions to modify the file.\n\n{row['prompt']}")
        assert right(request, rng()).text == f"```{row['language']}\n{row['code'].rstrip()}\n```"
        assert wrong(request, rng()).text != right(request, rng()).text
