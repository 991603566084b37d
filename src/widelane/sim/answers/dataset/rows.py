"""Problems from the rows of datasets, recognised by the names of their fields.

| rows | fields |
| --- | --- |
| GSM8K | `question`, `answer` with `#### N` |
| AIME, MATH, and the like | `problem`, `answer`, perhaps `solution` |
| BBH | `input`, `target` |
| CRUXEval (output prediction) | `code`, `input`, `output` |
| HumanEval, MBPP+ | `prompt`, `entry_point`, `canonical_solution` |
| MBPP | `text`, `code`, `test_list` |
| LiveCodeBench | `question_content`, `starter_code`; answers come from attempts |
| your own | `prompt` and `answer`, or `prompt` and `code` (perhaps `entry_point`, `language`) |

A row's `id`, `task_id`, `question_id` or `unique_id` names the problem; without one its place does, from 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from widelane.errors import UsageError
from widelane.sim.answers.dataset.problem import Form, Problem

Row = Mapping[str, Any]
_IDS: Final = ("id", "task_id", "question_id", "unique_id")
_CALCULATION: Final = re.compile(r"<<[^>]*>>")
_OPTION: Final = re.compile(r"^\s*(\([A-Z]\))", re.MULTILINE)
_METHOD: Final = re.compile(r"def (\w+)\(\s*self\b")
_DEFINED: Final = re.compile(r"^def (\w+)\(", re.MULTILINE)


def problems_from_rows(rows: Iterable[Row]) -> list[Problem]:
    """The problems, in the rows' order.

    Raises:
        UsageError: a row is of no known form, or two rows have one id.
    """
    problems: list[Problem] = []
    seen: set[str] = set()
    for place, row in enumerate(rows):
        reader = next((reader for needed, reader in _READERS if all(name in row for name in needed)), None)
        if reader is None:
            raise UsageError(
                f"Row {place} is of no known dataset: it has {', '.join(map(str, row)) or 'no fields'}. "
                "Give rows with `prompt` and `answer`, or `prompt` and `code`."
            )
        problem = reader(row, _id(row, place))
        if problem.id in seen:
            raise UsageError(f"Row {place} has the id {problem.id!r} of an earlier row; ids must differ.")
        seen.add(problem.id)
        problems.append(problem)
    return problems


def with_attempts(problems: Sequence[Problem], rows: Iterable[Row]) -> list[Problem]:
    """The problems with recorded answers added, right and wrong; rows of other problems are passed over.

    Understood are `{id, choices: [{text, ok}]}` and LiveCodeBench's `{question_id, output_list, graded_list}`.

    Raises:
        UsageError: a row is of neither form.
    """
    known = {problem.id: problem for problem in problems}
    for place, row in enumerate(rows):
        name = _id(row, place)
        if (problem := known.get(name)) is None:
            continue
        attempts = _attempts(row, place)
        known[name] = replace(
            problem,
            right_texts=(*problem.right_texts, *(text for text, passed in attempts if passed)),
            wrong_texts=(*problem.wrong_texts, *(text for text, passed in attempts if not passed)),
        )
    return list(known.values())


def attempt_rates(rows: Iterable[Row]) -> dict[str, float]:
    """The share of recorded attempts that passed, by problem id: a pass probability for each.

    Raises:
        UsageError: a row is of no known form.
    """
    rates: dict[str, float] = {}
    for place, row in enumerate(rows):
        attempts = _attempts(row, place)
        if attempts:
            rates[_id(row, place)] = sum(passed for _, passed in attempts) / len(attempts)
    return rates


def _attempts(row: Row, place: int) -> list[tuple[str, bool]]:
    """Every recorded answer of a row and whether it passed."""
    choices, outputs, grades = row.get("choices"), row.get("output_list"), row.get("graded_list")
    if isinstance(choices, list):
        return [(str(choice["text"]), bool(choice["ok"])) for choice in choices if "text" in choice and "ok" in choice]
    if isinstance(outputs, list) and isinstance(grades, list):
        return [(str(text), bool(passed)) for text, passed in zip(outputs, grades, strict=True)]
    raise UsageError(f"Row {place} has no attempts: it needs `choices`, or `output_list` and `graded_list`.")


def _id(row: Row, place: int) -> str:
    return next((str(row[name]) for name in _IDS if row.get(name) is not None), str(place))


# --- one reader a form


def _gsm8k(row: Row, name: str) -> Problem:
    working, mark, key = str(row["answer"]).rpartition("####")
    working = _CALCULATION.sub("", working).strip()
    found = str(row["question"])
    return _value(name, found, key.strip(), working=working if mark else "", closing="#### {}")


def _mathematics(row: Row, name: str) -> Problem:
    working = str(row.get("solution") or "")
    return _value(name, str(row["problem"]), str(row["answer"]), working=working, closing=r"\boxed{{}}")


def _bbh(row: Row, name: str) -> Problem:
    found = str(row["input"])
    return _value(name, found, str(row["target"]), closing="So the answer is {}.", options=_OPTION.findall(found))


def _cruxeval(row: Row, name: str) -> Problem:
    found = (str(row["code"]), str(row["input"]))
    return Problem(id=name, found_by=found, form=Form.LITERAL, key=str(row["output"]))


def _function(row: Row, name: str) -> Problem:
    """HumanEval's solution goes on from the prompt; MBPP+'s is whole."""
    prompt, solution, entry_point = str(row["prompt"]), str(row["canonical_solution"]), str(row["entry_point"])
    code = solution if f"def {entry_point}(" in solution else prompt + solution
    found = (prompt.strip().strip('"').strip(),)
    return Problem(id=name, found_by=found, form=Form.FUNCTION, key=code.strip("\n"), entry_point=entry_point)


def _mbpp(row: Row, name: str) -> Problem:
    code = str(row["code"]).replace("\r\n", "\n")
    tests = "\n".join(row["test_list"])
    defined = _DEFINED.findall(code)
    entry_point = next((one for one in reversed(defined) if re.search(rf"\b{one}\s*\(", tests)), None)
    form = Form.FUNCTION if entry_point else Form.PROGRAM
    return Problem(id=name, found_by=(str(row["text"]),), form=form, key=code, entry_point=entry_point)


def _livecodebench(row: Row, name: str) -> Problem:
    method = _METHOD.search(str(row.get("starter_code") or ""))
    return Problem(
        id=name,
        found_by=(str(row["question_content"]),),
        form=Form.METHOD if method else Form.PROGRAM,
        key=None,
        entry_point=method[1] if method else None,
    )


def _own_code(row: Row, name: str) -> Problem:
    entry_point = row.get("entry_point")
    return Problem(
        id=name,
        found_by=(str(row["prompt"]),),
        form=Form.FUNCTION if entry_point else Form.PROGRAM,
        key=str(row["code"]),
        entry_point=str(entry_point) if entry_point else None,
        language=str(row.get("language") or "python"),
    )


def _own_value(row: Row, name: str) -> Problem:
    return _value(name, str(row["prompt"]), str(row["answer"]))


def _value(
    name: str, found: str, key: str, *, working: str = "", closing: str = "{}", options: Sequence[str] = ()
) -> Problem:
    return Problem(
        id=name, found_by=(found,), form=Form.VALUE, key=key, working=working, closing=closing, options=options
    )


_Reader = Callable[[Row, str], Problem]
_READERS: Final[tuple[tuple[tuple[str, ...], _Reader], ...]] = (
    (("question_content",), _livecodebench),
    (("prompt", "canonical_solution", "entry_point"), _function),
    (("text", "code", "test_list"), _mbpp),
    (("code", "input", "output"), _cruxeval),
    (("question", "answer"), _gsm8k),
    (("problem", "answer"), _mathematics),
    (("input", "target"), _bbh),
    (("prompt", "code"), _own_code),
    (("prompt", "answer"), _own_value),
)
"""The first whose fields are all there reads the row."""
