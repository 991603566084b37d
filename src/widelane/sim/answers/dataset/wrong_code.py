"""Code that certainly fails its tests, in one of several ways.

Nothing is run here, so each way fails by construction: whatever a test calls raises, gives nothing, or gives a value
that is not equal to the right one. A program that a test runs does the same on its output.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from widelane.sim.answers.dataset.problem import Form, Problem


class WrongWay(StrEnum):
    """How a wrong program fails. Each shows in another failure signature."""

    WRONG_VALUE = "wrong-value"
    RETURNS_NOTHING = "returns-nothing"
    RAISES = "raises"
    UNDEFINED_NAME = "undefined-name"
    SYNTAX_ERROR = "syntax-error"
    ENDLESS = "endless"
    """Runs into the time limit: real verifiers pay for it, so it is made only on request."""


USUAL_WAYS: Final = tuple(way for way in WrongWay if way is not WrongWay.ENDLESS)

_DRAFT: Final = "_draft"
_NAMES: Final = ("total_count", "seen_items", "result_map", "left_side", "best_so_far")
_ERRORS: Final = (
    'ValueError("no solution")', 'IndexError("list index out of range")', 'KeyError("missing")',
    'TypeError("unsupported operand")', 'ZeroDivisionError("division by zero")',
)  # fmt: skip
_SLIP: Final = """\
def _slipped(value, by):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + by
    if isinstance(value, str):
        return value + "x" * by
    if isinstance(value, list):
        return value + [by]
    if isinstance(value, tuple):
        return value + (by,)
    return [value, by]
"""


def ways_to_fail(problem: Problem) -> tuple[WrongWay, ...]:
    """The ways that can be made for this problem without its right code where there is none; the endless one too."""
    if problem.language != "python":
        return (WrongWay.SYNTAX_ERROR,)
    if problem.form is Form.FUNCTION:
        return tuple(WrongWay)
    if problem.form is Form.PROGRAM and problem.key is not None:  # a module that tests import, of unknown names
        return (WrongWay.RAISES, WrongWay.UNDEFINED_NAME, WrongWay.SYNTAX_ERROR, WrongWay.ENDLESS)
    return tuple(way for way in WrongWay if way is not WrongWay.WRONG_VALUE or problem.form is Form.PROGRAM)


def wrong_code(problem: Problem, way: WrongWay, rng: random.Random) -> str:
    """Code for this problem that fails in this way; `rng` decides how exactly."""
    if way is WrongWay.SYNTAX_ERROR:
        return _cut_off(problem)
    if problem.form is Form.FUNCTION:
        return _function(problem, way, rng)
    body = _BODIES[way](rng)
    if problem.form is Form.METHOD:
        return f"class Solution:\n    def {problem.entry_point}(self, *arguments, **named):\n        {body}\n"
    return _program(body, way)


def _function(problem: Problem, way: WrongWay, rng: random.Random) -> str:
    """The helpers that stand before the function, and the function as it should not be."""
    name, code = str(problem.entry_point), problem.key or ""
    head = f"def {name}(*arguments, **named):\n    "
    if way is not WrongWay.WRONG_VALUE:
        place = re.search(rf"^def {re.escape(name)}\(", code, re.MULTILINE)
        before = code[: place.start()].rstrip() if place else ""
        return f"{before}\n\n\n{head}{_BODIES[way](rng)}\n".lstrip()
    # Calls of itself go to the draft: the slip is made once, on the result.
    draft = re.sub(rf"(?<![\w.]){re.escape(name)}(?=\s*\()", name + _DRAFT, code)
    by = rng.randint(1, 9)
    return f"{draft}\n\n\n{_SLIP}\n\n{head}return _slipped({name + _DRAFT}(*arguments, **named), {by})\n"


def _program(body: str, way: WrongWay) -> str:
    if way is WrongWay.RETURNS_NOTHING:
        return "import sys\n\nsys.stdin.read()\n"
    return f"{body}\n" if way is not WrongWay.WRONG_VALUE else f"import sys\n\nsys.stdin.read()\n{body}\n"


def _cut_off(problem: Problem) -> str:
    """The first half of the code and a bracket that nothing closes: no language takes it."""
    code = problem.key or f"# {problem.entry_point or 'main'}\nx = "
    lines = code.splitlines()
    return "\n".join(lines[: max(1, len(lines) // 2)]) + "\n(("


_BODIES: Final[dict[WrongWay, Callable[[random.Random], str]]] = {
    WrongWay.WRONG_VALUE: lambda rng: f"print(-{rng.randint(10**6, 10**7)})",
    WrongWay.RETURNS_NOTHING: lambda rng: "return None",
    WrongWay.RAISES: lambda rng: f"raise {rng.choice(_ERRORS)}",
    WrongWay.UNDEFINED_NAME: lambda rng: f"{rng.choice(_NAMES)}.append(0)",
    WrongWay.ENDLESS: lambda rng: "while True: pass",
}
