"""Rows of datasets become problems."""

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from widelane.errors import UsageError
from widelane.sim.answers.dataset.problem import Form
from widelane.sim.answers.dataset.rows import attempt_rates, problems_from_rows, with_attempts


def test_each_form_of_row_is_recognised() -> None:
    rows: list[dict[str, Any]] = [
        {"question": "2+2?", "answer": "It is 2+2=<<2+2=4>>4.\n#### 4"},
        {"id": "I-1", "problem": "Find $x$.", "answer": "073", "solution": "So x = 73."},
        {"input": "Options:\n(A) x\n(B) y", "target": "(B)", "id": "bbh-0"},
        {"code": "def f(a):\n    return a", "input": "1", "output": "1", "id": "sample_1"},
        {"task_id": "HumanEval/0", "prompt": "def f(x):\n", "entry_point": "f", "canonical_solution": "    return x\n"},
        {"task_id": "Mbpp/2", "prompt": '"""\nDouble\n"""', "entry_point": "g", "canonical_solution": "def g(x): 0"},
        {"task_id": 3, "text": "Halve.", "code": "def h(x):\r\n  return x/2", "test_list": ["assert h(2) == 1"]},
        {"question_id": "abc_a", "question_content": "Read n.", "starter_code": ""},
        {"question_id": "3000", "question_content": "Sum.", "starter_code": "class Solution:\n    def total(self, a):"},
        {"id": "own", "prompt": "Sort.", "code": "fn sort() {}", "language": "rust"},
        {"id": "own-2", "prompt": "Capital?", "answer": "Paris"},
    ]  # fmt: skip

    problems = problems_from_rows(rows)

    assert [(one.id, one.form, one.key, one.entry_point) for one in problems] == [
        ("0", Form.VALUE, "4", None),
        ("I-1", Form.VALUE, "073", None),
        ("bbh-0", Form.VALUE, "(B)", None),
        ("sample_1", Form.LITERAL, "1", None),
        ("HumanEval/0", Form.FUNCTION, "def f(x):\n    return x", "f"),
        ("Mbpp/2", Form.FUNCTION, "def g(x): 0", "g"),
        ("3", Form.FUNCTION, "def h(x):\n  return x/2", "h"),
        ("abc_a", Form.PROGRAM, None, None),
        ("3000", Form.METHOD, None, "total"),
        ("own", Form.PROGRAM, "fn sort() {}", None),
        ("own-2", Form.VALUE, "Paris", None),
    ]
    assert problems[0].working == "It is 2+2=4."
    assert problems[2].options == ["(A)", "(B)"]


def test_an_unknown_row_is_refused_with_its_fields() -> None:
    with pytest.raises(UsageError, match="Row 1 is of no known dataset: it has key, instruction_id_list"):
        problems_from_rows([{"question": "a", "answer": "b"}, {"key": 1, "instruction_id_list": []}])


def test_two_rows_of_one_id_are_refused() -> None:
    with pytest.raises(UsageError, match="Row 1 has the id 'a' of an earlier row"):
        problems_from_rows([{"id": "a", "prompt": "x", "answer": "1"}, {"id": "a", "prompt": "y", "answer": "2"}])


def test_recorded_attempts_are_added_by_id() -> None:
    problems = problems_from_rows([{"id": "a", "prompt": "x", "answer": "1"}])
    rows = [
        {"id": "a", "choices": [{"text": "It is 1.", "ok": True}, {"text": "It is 2.", "ok": False}]},
        {"question_id": "a", "output_list": ["3!"], "graded_list": [False]},
        {"id": "elsewhere", "choices": [{"text": "?", "ok": True}]},
    ]

    found = with_attempts(problems, rows)[0]

    assert (found.right_texts, found.wrong_texts) == (("It is 1.",), ("It is 2.", "3!"))
    assert attempt_rates(rows[:1]) == {"a": 0.5}


def test_a_row_without_attempts_is_refused() -> None:
    with pytest.raises(UsageError, match="Row 0 has no attempts"):
        attempt_rates([{"id": "a"}])


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("gsm8k/test.jsonl", Form.VALUE),
        ("aime/aime2024.jsonl", Form.VALUE),
        ("aime/aime2025.jsonl", Form.VALUE),
        ("math500/test.jsonl", Form.VALUE),
        ("cruxeval/cruxeval.jsonl", Form.LITERAL),
        ("mbpp/MbppPlus-v0.1.0.jsonl", Form.FUNCTION),
    ],
)
def test_real_rows_are_read(data_dir: Path, name: str, form: Form) -> None:
    rows = msgspec.json.Decoder().decode_lines((data_dir / name).read_bytes())

    problems = problems_from_rows(rows)

    assert len(problems) == len(rows)
    assert {problem.form for problem in problems} == {form}
    assert all(problem.key and problem.solvable for problem in problems)


def test_every_recorded_attempt_finds_its_problem(data_dir: Path) -> None:
    rows = msgspec.json.Decoder().decode_lines(
        gzip.decompress((data_dir / "humaneval/HumanEval.jsonl.gz").read_bytes())
    )
    problems = problems_from_rows(rows)
    for recorded in sorted((data_dir / "recorded").glob("humaneval.*.jsonl")):
        attempts = msgspec.json.Decoder().decode_lines(recorded.read_bytes())
        known = {problem.id: problem for problem in with_attempts(problems, attempts)}
        for row in attempts:
            found = known[row["id"]]
            assert len(found.right_texts) + len(found.wrong_texts) == len(row["choices"])


def test_competition_programs_come_from_graded_submissions(data_dir: Path) -> None:
    rows = msgspec.json.Decoder().decode_lines((data_dir / "livecodebench/problems.jsonl").read_bytes())
    problems = problems_from_rows(rows)
    assert not any(problem.solvable for problem in problems)
    files = sorted((data_dir / "livecodebench/submissions").glob("*/*.json"))
    assert files

    for path in files:
        problems = with_attempts(problems, msgspec.json.decode(path.read_bytes()))

    assert any(problem.right_texts for problem in problems)
    assert any(problem.wrong_texts for problem in problems)
