"""The worker: reads its files, writes its documents, says that it is done. One call a turn.

All it knows stands in the request, so the next turn follows from the conversation alone: every file is read once, its
document written at once, and a call that failed twice is given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from widelane.sim.answers.agent.mistakes import Mistake
from widelane.sim.answers.agent.planner import deliverable_of
from widelane.sim.answers.agent.reading import (
    Done,
    history,
    inputs_and_outputs,
    names_defined,
    paths_in,
    told_nothing_written,
)
from widelane.sim.answers.agent.tools import Kind, Tools
from widelane.sim.answers.agent.turn import Turn
from widelane.sim.answers.agent.writer import document
from widelane.sim.answers.answer import Answer
from widelane.sim.answers.plain import called, json_text, written

REPEATS: Final = 12
"""How often the same file is read by a worker that goes in circles: as often as the field report saw."""
RESEARCH_CALLS: Final = 40
"""After so many calls a worker that only researches gives up, with nothing written."""
_TRIES: Final = 2
_MOST_LISTED: Final = 3
_DEFINITIONS: Final = r"^\s*(def|class) \w+"


@dataclass(frozen=True, slots=True)
class _Step:
    """One thing to do: read `path`, or write the document `path` about `sources`."""

    kind: Kind
    path: str
    sources: tuple[str, ...] = ()


class Worker:
    """The worker as it stands in one turn."""

    def __init__(self, turn: Turn, tools: Tools) -> None:
        self._turn = turn
        self._tools = tools
        self._done = history(turn.request)

    def answer(self) -> Answer:
        """The next turn."""
        step = self._next_step()
        if step is None:
            return self._finished("Every document is written.")
        if self._researches():
            return self._research()
        if self._repeats():
            return self._call(Kind.READ, {"path": self._path(self._done[-1])}, mistake=Mistake.REPEATED_CALL)
        return self._write(step) if step.kind is Kind.WRITE else self._look(step)

    # --- what to do

    def _next_step(self) -> _Step | None:
        return next((step for step in self._steps() if not self._is_over(step)), None)

    def _steps(self) -> list[_Step]:
        """Reading and writing in turn where every file has its document, else all reading first."""
        inputs, outputs = inputs_and_outputs(self._turn.opening)
        if not inputs and Kind.LIST in self._tools:
            listed = [done for done in self._done if self._is(done, Kind.LIST)]
            if not listed:
                return [_Step(Kind.LIST, ".")]
            inputs = paths_in("\n".join(done.result or "" for done in listed))[:_MOST_LISTED]
        if not outputs:
            outputs = [deliverable_of([path]) for path in inputs] or [deliverable_of(())]
        if len(inputs) == len(outputs):
            pairs = zip(inputs, outputs, strict=True)
            steps = [
                step for read, write in pairs for step in (_Step(Kind.READ, read), _Step(Kind.WRITE, write, (read,)))
            ]
        else:
            steps = [_Step(Kind.READ, path) for path in inputs]
            steps += [_Step(Kind.WRITE, path, tuple(inputs)) for path in outputs]
        return [step for step in steps if step.kind in self._tools or step.kind is not Kind.READ]

    def _is_over(self, step: _Step) -> bool:
        """Done, or failed so often that there is no use in trying again."""
        kinds = (Kind.READ, Kind.SEARCH) if step.kind is Kind.READ else (step.kind,)
        tries = [done for done in self._done if self._path(done) == step.path and any(self._is(done, k) for k in kinds)]
        if step.kind is Kind.LIST:
            return any(self._is(done, Kind.LIST) for done in self._done)
        return any(not done.failed for done in tries) or len(tries) >= _TRIES

    # --- mistakes

    def _researches(self) -> bool:
        """Whether this worker still looks around instead of writing."""
        if not self._done or not self._turn.makes(Mistake.RESEARCH_WITHOUT_WRITING):
            return False
        return not told_nothing_written(self._turn.request)

    def _research(self) -> Answer:
        """Another call that teaches nothing: none like an earlier one, so that a guard against repetition is silent."""
        mistake = Mistake.RESEARCH_WITHOUT_WRITING
        number = len(self._done)
        if number >= RESEARCH_CALLS:
            return replace(self._finished("The files were looked at, and more must be read."), mistake=mistake)
        if Kind.SEARCH in self._tools:
            names = names_defined(done.result or "" for done in self._done) or ["main"]
            pattern = names[number % len(names)] + (str(number) if number >= len(names) else "")
            return self._call(Kind.SEARCH, {"pattern": pattern, "path": "."}, mistake=mistake)
        seen = {self._path(done) for done in self._done}
        inputs, _ = inputs_and_outputs(self._turn.opening)
        path = next((path for path in inputs if path not in seen), f"docs/part{number}.md")
        return self._call(Kind.READ if Kind.READ in self._tools else Kind.LIST, {"path": path}, mistake=mistake)

    def _repeats(self) -> bool:
        """Whether the file that was just read is read once more."""
        if not self._done or not self._turn.makes(Mistake.REPEATED_CALL):
            return False
        last = self._done[-1]
        same = sum(done.name == last.name and done.arguments == last.arguments for done in self._done)
        return self._is(last, Kind.READ) and not last.told_unchanged and same < REPEATS

    # --- the answers

    def _look(self, step: _Step) -> Answer:
        if step.kind is Kind.READ and Kind.SEARCH in self._tools and self._turn.makes(Mistake.TRUSTS_EMPTY_SEARCH):
            wanted = {"pattern": _DEFINITIONS, "path": step.path}
            return self._call(Kind.SEARCH, wanted, mistake=Mistake.TRUSTS_EMPTY_SEARCH)
        return self._call(step.kind, {"path": step.path})

    def _write(self, step: _Step) -> Answer:
        turn = self._turn
        tokens = turn.lengths.document.draw(turn.rng)
        names = names_defined(done.result or "" for done in self._done if self._path(done) in step.sources)
        content = document(", ".join(step.sources) or step.path, turn.named(names), tokens)
        if Kind.WRITE not in self._tools:
            return written(content, tokens)
        if turn.makes(Mistake.PROSE_INSTEAD_OF_FILE) and not told_nothing_written(turn.request):
            return replace(written(content, tokens), mistake=Mistake.PROSE_INSTEAD_OF_FILE)
        if turn.makes(Mistake.MALFORMED_ARGUMENTS) and not any(self._is(done, Kind.WRITE) for done in self._done):
            return self._call(Kind.WRITE, {"content": content}, tokens, mistake=Mistake.MALFORMED_ARGUMENTS)
        drifts = bool(names) and turn.makes(Mistake.DRIFTING_NAMES)
        mistake = Mistake.DRIFTING_NAMES if drifts else None
        return self._call(Kind.WRITE, {"path": step.path, "content": content}, tokens, mistake=mistake)

    def _finished(self, words: str) -> Answer:
        if Kind.FINISH in self._tools:
            return self._call(Kind.FINISH, {})
        return written(words)

    def _call(
        self, kind: Kind, wanted: Mapping[str, Any], tokens: int | None = None, *, mistake: Mistake | None = None
    ) -> Answer:
        lacks = mistake is Mistake.MALFORMED_ARGUMENTS
        call = self._tools.call(kind, wanted, self._turn.rng, complete=not lacks)
        tokens = tokens or self._turn.lengths.step.draw(self._turn.rng)
        if self._tools.native:
            return called(call, tokens=tokens, mistake=mistake)
        return replace(written(json_text(self._tools.action(call)), tokens), mistake=mistake)

    def _is(self, done: Done, kind: Kind) -> bool:
        return self._tools.kind_of(done.name) is kind

    def _path(self, done: Done) -> str:
        return str(self._tools.meaning(done.arguments, "path") or "")
