"""Which problem of a set a request is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from widelane.errors import UsageError
from widelane.sim.answers.dataset.problem import Form, Problem

_REMEMBERED: Final = 1024


class _Entry(NamedTuple):
    texts: tuple[str, ...]
    signature: str
    problem: Problem


class _Place(NamedTuple):
    """How well a problem fits: by where its text ends, so that of two that begin alike the longer is found; then by
    its length; then by whether its function is named, since datasets repeat their sentences."""

    end: int
    length: int
    named: bool


class ProblemFinder:
    """Finds the problem whose text stands last in a request: examples stand before it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Raises:
        UsageError: a problem has no text to be found by.
        """
        self._entries = [_entry(problem) for problem in problems]
        self._found: dict[str, Problem | None] = {}  # six samples ask the same; the answer depends on the text alone

    def find(self, asked: str) -> Problem | None:
        """The problem, None when the text contains none of the set."""
        if asked not in self._found:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            self._found[asked] = self._search(_collapsed(asked))
        return self._found[asked]

    def _search(self, asked: str) -> Problem | None:
        places = ((_place(entry, asked), entry) for entry in self._entries)
        found = [(place, entry) for place, entry in places if place is not None]
        if not found:  # a harness may rewrite a prompt; what its tests call keeps its name
            found = [
                (_Place(place, len(entry.signature), True), entry)
                for entry in self._entries
                if entry.signature and (place := asked.rfind(entry.signature)) >= 0
            ]
        return max(found, key=lambda one: one[0])[1].problem if found else None


def _entry(problem: Problem) -> _Entry:
    texts = tuple(text for text in map(_collapsed, problem.found_by) if text)
    if not texts:
        raise UsageError(f"The problem {problem.id!r} has an empty text: no request could be recognised by it.")
    signature = f"def {problem.entry_point}(" if problem.entry_point and problem.form is Form.FUNCTION else ""
    return _Entry(texts, signature, problem)


def _place(entry: _Entry, asked: str) -> _Place | None:
    """Where the entry's texts stand; None when one of them is missing."""
    texts = entry.texts
    first = asked.rfind(texts[0])
    if first < 0 or any(text not in asked for text in texts[1:]):
        return None
    name = entry.problem.entry_point
    return _Place(first + len(texts[0]), sum(map(len, texts)), bool(name) and f"{name}(" in asked)


def _collapsed(text: str) -> str:
    return " ".join(text.split())
