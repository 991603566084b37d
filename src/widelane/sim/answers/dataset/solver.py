"""A model that solves each problem of a set with a stated probability.

    solver = DatasetSolver(problems_from_rows(rows), pass_probability=0.35)

A right answer comes from the dataset's row. A wrong one fails its tests, in varied ways (another sample may pass: a
problem bound by variance) or always in the same way (sampling more is no use: one bound by capability; several votes
agree on the wrong answer).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from widelane.errors import UsageError
from widelane.records import ChatRequest
from widelane.sim.answers.answer import Answer, Answerer, estimated_tokens
from widelane.sim.answers.dataset.find_problem import ProblemFinder
from widelane.sim.answers.dataset.problem import Form, Problem
from widelane.sim.answers.dataset.wrong_code import USUAL_WAYS, WrongWay, ways_to_fail, wrong_code
from widelane.sim.answers.dataset.wrong_value import wrong_value
from widelane.sim.answers.lengths import Lengths
from widelane.sim.answers.plain import PlainAnswers, thinking_first
from widelane.sim.answers.request_text import asked_text, may_think, turns_before
from widelane.sim.answers.writing import filler

PerProblem = float | Mapping[str, float]


class Failing(StrEnum):
    """How the wrong answers to one problem relate to each other."""

    VARIED = "varied"
    IDENTICAL = "identical"


class DatasetSolver:
    """Answers requests that contain a problem of the set; others go to `otherwise`."""

    def __init__(
        self,
        problems: Sequence[Problem],
        pass_probability: PerProblem,
        *,
        repair_probability: PerProblem | None = None,
        failing: Failing | Mapping[str, Failing] | None = None,
        ways: Sequence[WrongWay] = USUAL_WAYS,
        lengths: Lengths | None = None,
        thinking: Lengths | None = None,
        otherwise: Answerer | None = None,
    ) -> None:
        """Args:
        pass_probability: one for all, or by problem id (every problem needs one).
        repair_probability: of a later turn of the same conversation; None: as the first.
        failing: for all or by id; None or an id left out: identical where nothing ever passes, else varied.
        ways: how wrong code may fail.
        lengths: tokens of an answer, drawn out with prose where it is shorter; None: as it comes out.
        thinking: tokens of reasoning before it; None for none.

        Raises:
            UsageError: a probability is missing or out of range, or a problem should pass and no right answer is known.
        """
        self._finder = ProblemFinder(problems)
        self._first = _by_id("pass probability", pass_probability, problems)
        repaired = pass_probability if repair_probability is None else repair_probability
        self._repaired = _by_id("repair probability", repaired, problems)
        self._failing = {
            problem.id: _failing(failing, problem.id, self._first[problem.id], self._repaired[problem.id])
            for problem in problems
        }
        self._ways = tuple(ways)
        if not self._ways:
            raise UsageError("A solver needs at least one way to fail; give `ways`, or leave them as they are.")
        self._lengths = lengths
        self._thinking = thinking
        self._otherwise = otherwise if otherwise is not None else PlainAnswers()

    def __call__(self, request: ChatRequest, rng: random.Random) -> Answer:
        asked = asked_text(request)
        problem = self._finder.find(asked)
        if problem is None:
            return self._otherwise(request, rng)
        share = (self._repaired if turns_before(request) else self._first)[problem.id]
        right = rng.random() < share  # the first draw: raising a probability turns wrong answers right, and no other
        tokens = self._lengths.draw(rng) if self._lengths is not None else None
        thought = self._thinking.draw(rng) if self._thinking is not None and may_think(request) else 0
        text = _right_text(problem, asked, rng) if right else self._wrong_text(problem, asked, rng)
        return thinking_first(_in_tokens(text, tokens, right=right), thought)

    def _wrong_text(self, problem: Problem, asked: str, rng: random.Random) -> str:
        if self._failing[problem.id] is Failing.IDENTICAL:
            rng = random.Random(f"identical/{problem.id}")
        if problem.wrong_texts and (problem.key is None or rng.random() < _RECORDED_SHARE):
            return rng.choice(problem.wrong_texts)
        if problem.form in (Form.VALUE, Form.LITERAL):
            key = problem.key or ""
            value = wrong_value(key, rng, options=problem.options, literal=problem.form is Form.LITERAL)
            return f"{filler(_WRONG_WORKING_TOKENS, len(key))}\n\n{_stated(value, problem, asked)}"
        possible = ways_to_fail(problem)
        ways = [way for way in self._ways if way in possible] or list(possible)
        return _fenced(wrong_code(problem, rng.choice(ways), rng), problem)


_RECORDED_SHARE: Final = 0.5
"""How often a recorded answer is given where one could also be made: both kinds are then seen."""
_WRONG_WORKING_TOKENS: Final = 60
_MARKS: Final = (("[ANSWER]", "[ANSWER]{}[/ANSWER]"), (r"\boxed", r"\boxed{{}}"), ("ANSWER:", "ANSWER: {}"),
                 ("####", "#### {}"))  # fmt: skip
"""What a request says when it demands a form, and the form."""


def _right_text(problem: Problem, asked: str, rng: random.Random) -> str:
    if problem.right_texts and (problem.key is None or rng.random() < _RECORDED_SHARE):
        return rng.choice(problem.right_texts)
    if problem.form in (Form.VALUE, Form.LITERAL):
        return f"{problem.working}\n\n{_stated(problem.key or '', problem, asked)}".lstrip()
    return _fenced(problem.key or "", problem)


def _stated(value: str, problem: Problem, asked: str) -> str:
    """The last line of an answer, in the form that is asked for."""
    form = next((form for mark, form in _MARKS if mark in asked), problem.closing)
    return form.replace("{}", value)


def _fenced(code: str, problem: Problem) -> str:
    return f"```{problem.language}\n{code.rstrip()}\n```"


def _in_tokens(text: str, tokens: int | None, *, right: bool) -> Answer:
    """The text as an answer of so many tokens, prose before it where it is too short for them."""
    least = max(1, estimated_tokens(text))
    if tokens is not None and tokens > least + 1:
        text = f"{filler(tokens - least)}\n\n{text}"
    return Answer(text=text, output_tokens=tokens or least, right=right)


def _by_id(what: str, stated: PerProblem, problems: Sequence[Problem]) -> dict[str, float]:
    by_id = stated if isinstance(stated, Mapping) else dict.fromkeys((problem.id for problem in problems), stated)
    for problem in problems:
        share = by_id.get(problem.id)
        if share is None:
            raise UsageError(f"The problem {problem.id!r} has no {what}; give one for every problem, or one for all.")
        if not 0 <= share <= 1:
            raise UsageError(f"The {what} of the problem {problem.id!r} is {share}; it must lie between 0 and 1.")
        if share > 0 and not problem.solvable:
            raise UsageError(
                f"The problem {problem.id!r} should pass with probability {share}, and no right answer to it is known; "
                "add recorded answers, or set its probability to 0."
            )
        if share < 1 and problem.key is None and not problem.wrong_texts and problem.form is Form.VALUE:
            raise UsageError(f"The problem {problem.id!r} has no answer to be wrong about; give its row an answer.")
    return {problem.id: by_id[problem.id] for problem in problems}


def _failing(stated: Failing | Mapping[str, Failing] | None, name: str, first: float, repaired: float) -> Failing:
    if isinstance(stated, Failing):
        return stated
    usual = Failing.VARIED if first or repaired else Failing.IDENTICAL
    return stated.get(name, usual) if stated is not None else usual
