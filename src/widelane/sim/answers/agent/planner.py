"""The planner: one answer that splits a goal into subtasks over the files it was shown."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from widelane.sim.answers.agent.mistakes import Mistake
from widelane.sim.answers.agent.reading import paths_in
from widelane.sim.answers.agent.turn import Turn
from widelane.sim.answers.answer import Answer
from widelane.sim.answers.plain import json_text
from widelane.sim.answers.request_text import wanted_schema
from widelane.sim.answers.schema import Schema, resolved

INVENTED: Final = 12
"""How many files an ungrounded plan makes up: as many as the field report saw."""
_COARSE: Final = 3
_INVENTABLE: Final = (
    "utils", "helpers", "core", "engine", "manager", "handlers", "registry", "factory", "base", "constants", "logging",
    "middleware", "validators", "serializers", "adapters", "events", "scheduler", "storage", "session", "settings",
)  # fmt: skip
_FILES: Final = re.compile(r"file|path|module|source", re.IGNORECASE)
_DELIVERABLE: Final = re.compile(r"deliver|output|note|target", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Subtask:
    """A part of the work."""

    title: str
    files: Sequence[str]
    deliverable: str


def plan(turn: Turn) -> Answer:
    """The plan as JSON, in the fields of the request's schema where it has one."""
    files = paths_in(turn.opening)
    mistake: Mistake | None = None
    scope = turn.scope
    if turn.makes(Mistake.COARSE_SUBTASKS):
        mistake, scope = Mistake.COARSE_SUBTASKS, max(turn.scope, -(-len(files) // _COARSE))
    subtasks = [_subtask(files[first : first + scope]) for first in range(0, len(files), scope)]
    if turn.makes(Mistake.INVENTED_FILES):
        mistake = Mistake.INVENTED_FILES
        subtasks += [_subtask([path]) for path in invented(files, turn.rng)]
    schema = wanted_schema(turn.request)
    value = _shaped(schema, subtasks) if schema is not None else None
    text = json_text(value if value is not None else {"subtasks": [_usual(subtask) for subtask in subtasks]})
    return Answer(text=text, output_tokens=turn.lengths.plan.draw(turn.rng), mistake=mistake)


def invented(files: Sequence[str], rng: random.Random) -> list[str]:
    """Names that are not among the files and look as if they were: their folders and endings, usual words."""
    folders = list(dict.fromkeys(str(PurePosixPath(path).parent) for path in files)) or ["."]
    ending = PurePosixPath(files[0]).suffix if files else ".py"
    real = {str(PurePosixPath(path)) for path in files}
    every = [str(PurePosixPath(folder, word + ending)) for folder in folders for word in _INVENTABLE]
    possible = [path for path in every if path not in real]
    return rng.sample(possible, min(INVENTED, len(possible)))


def deliverable_of(files: Sequence[str]) -> str:
    """Where the notes on these files go when nobody says."""
    first = PurePosixPath(files[0]) if files else PurePosixPath("overview")
    name = "_".join(part for part in first.with_suffix("").parts if part not in (".", "/"))
    return f"notes/{name}.md"


def _subtask(files: Sequence[str]) -> Subtask:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return Subtask(f"Describe {files[0]}{more}", files, deliverable_of(files))


def _usual(subtask: Subtask) -> dict[str, Any]:
    return {"title": subtask.title, "files": list(subtask.files), "deliverable": subtask.deliverable}


# --- a schema's own fields


def _shaped(schema: Schema, subtasks: Sequence[Subtask]) -> dict[str, Any] | None:
    """The plan in the schema's fields; None when it has no list of objects to hold subtasks."""
    properties: Mapping[str, Any] = resolved(schema, schema).get("properties") or {}
    for name, inner in properties.items():
        items = resolved(schema, resolved(schema, inner).get("items") or {})
        fields: Mapping[str, Any] = items.get("properties") or {}
        if fields:
            return {name: [_filled(schema, fields, subtask) for subtask in subtasks]}
    return None


def _filled(root: Schema, fields: Mapping[str, Any], subtask: Subtask) -> dict[str, Any]:
    """One subtask, each field by its type and name; what it cannot be told is left out."""
    filled: dict[str, Any] = {}
    for name, inner in fields.items():
        kind = resolved(root, inner).get("type")
        if kind == "array" and _FILES.search(name):
            filled[name] = list(subtask.files)
        elif kind in ("string", None):
            is_path = _FILES.search(name) is not None
            filled[name] = (
                subtask.deliverable if _DELIVERABLE.search(name) else subtask.files[0] if is_path else subtask.title
            )
    return filled
