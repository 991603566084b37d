"""A job written down as steps, in TOML or JSON.

[[step]]
name = "plan"
output = 800                # tokens that each call writes: 800, "600-1500", "900±300"
prompt = 400                # tokens that it reads of its own (default 400)
role = "plan"               # a step with the role plan is there only because the work is split, unless it says not

[[step]]
name = "module"
count = 24
output = "600-1500"
needs = ["plan"]            # waits for all calls of these steps, and reads what they wrote
# needs_share = ["other"]   # the calls of that step are dealt out among the calls of this one
# reads = false             # what the needed calls wrote is not in the prompt
# overhead = true           # falls away where nothing is split

[[instead]]                 # what would be done without splitting, one call at a time (default: the work itself)
name = "everything in one go"
output = 20000
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from widelane.errors import UsageError
from widelane.predict.shape import ASSUMED_PROMPT_TOKENS, Shape, graph_shape
from widelane.predict.steps import PLAN, WORK, Step, StepGraph
from widelane.sim.answers.lengths import parse_lengths

MOST_BYTES = 1_000_000
_TOML, _JSON = ".toml", ".json"


class _Step(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One table of the file."""

    name: str
    output: int | str
    prompt: int | None = None
    count: int = 1
    needs: tuple[str, ...] = ()
    needs_share: tuple[str, ...] = ()
    role: str = WORK
    reads: bool = True
    overhead: bool | None = None


class _JobFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    step: tuple[_Step, ...]
    instead: tuple[_Step, ...] = ()
    words: str | None = None


def read_job(path: Path, *, prompt_tokens: int | None = None) -> Shape:
    """The job in a file.

    Args:
        prompt_tokens: what a step reads of its own where it does not say.

    Raises:
        UsageError: the file cannot be read, or is no job; the message says where.
    """
    try:
        job = msgspec.convert(_document(path), _JobFile)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path} is no job: {error}. A job has [[step]] tables with `name` and `output`.") from None
    usual = ASSUMED_PROMPT_TOKENS if prompt_tokens is None else prompt_tokens
    try:
        graph = StepGraph(tuple(_step(step, usual) for step in job.step))
        instead = StepGraph(tuple(_step(step, usual) for step in job.instead)) if job.instead else None
        unsaid = prompt_tokens is None and any(step.prompt is None for step in (*job.step, *job.instead))
        assumed = (f"Steps whose prompt is not stated read {usual:,} tokens of their own.",) if unsaid else ()
        return graph_shape(graph, instead, words=job.words, assumed=assumed)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _document(path: Path) -> Mapping[str, Any]:
    suffix = path.suffix.lower()
    if suffix not in (_TOML, _JSON):
        raise UsageError(f"{path} is neither .toml nor .json: a job file is one of them.")
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"The job {path} cannot be read: {error.strerror or error}.") from None
    if len(data) > MOST_BYTES:
        raise UsageError(f"The job {path} is longer than {MOST_BYTES:,} bytes: it is no list of steps.")
    try:
        found = tomllib.loads(data.decode()) if suffix == _TOML else msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:  # TOML, JSON or UTF-8
        raise UsageError(f"{path} is not {suffix[1:].upper()}: {error}.") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no job: at its top stands no table of steps.")
    return found


def _step(step: _Step, usual: int) -> Step:
    try:
        output = parse_lengths(str(step.output))
    except UsageError as error:
        raise UsageError(f"step {step.name!r}: {error}") from None
    return Step(
        name=step.name,
        output=output,
        prompt_tokens=usual if step.prompt is None else step.prompt,
        count=step.count,
        needs=step.needs,
        needs_share=step.needs_share,
        role=step.role,
        reads=step.reads,
        overhead=step.role == PLAN if step.overhead is None else step.overhead,
    )
