"""A problem with a known answer, as the simulated solver needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Form(StrEnum):
    """What an answer is."""

    VALUE = "value"
    """A number, a formula, a letter, a word: what an exact or mathematical comparison reads."""
    LITERAL = "literal"
    """A Python literal."""
    FUNCTION = "function"
    """Code that defines a function, called by tests."""
    METHOD = "method"
    """Code with a class `Solution` whose method is called."""
    PROGRAM = "program"
    """A program that reads stdin and writes stdout, or a file in any language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem.

    Attributes:
        id: unique in its set.
        found_by: texts that a request about this problem contains, all of them; white space does not matter.
        key: the right value or code; None when only whole answers are known.
        working: the worked solution that leads to a value, empty when there is none.
        closing: how a value is stated when the request demands no form, `{}` standing for it.
        entry_point: name of the function or method that tests call.
        language: of the code, as code fences name it.
        options: values to choose from; empty when the choice is free.
        right_texts, wrong_texts: whole answers that are known to pass, and to fail (recorded ones).
    """

    id: str
    found_by: Sequence[str]
    form: Form
    key: str | None
    working: str = ""
    closing: str = "{}"
    entry_point: str | None = None
    language: str = "python"
    options: Sequence[str] = ()
    right_texts: Sequence[str] = ()
    wrong_texts: Sequence[str] = ()

    @property
    def solvable(self) -> bool:
        """Whether a right answer is known."""
        return self.key is not None or bool(self.right_texts)
