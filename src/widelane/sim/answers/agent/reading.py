"""What an agent reads in a request: files, names, and what it has done so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from widelane.records import ChatRequest, Message
from widelane.sim.answers.request_text import message_text

_EXTENSIONS: Final = (
    "c|cc|cfg|conf|cpp|cs|css|csv|ex|go|h|hpp|html|ini|ipynb|java|jl|js|json|jsx|kt|lua|md|mjs|php|pl|proto|py|pyi|r|rb"
    "|rs|rst|scala|sh|sql|svelte|swift|toml|ts|tsx|txt|vue|xml|yaml|yml|zig"
)
_PATH: Final = re.compile(
    r"(?<![\w./-])((?:\.{1,2}/)*(?:\.?[\w-]+(?:\.[\w-]+)*/)*[\w.-]*[\w-]\.(?:" + _EXTENSIONS + r"))(?![\w/-]|\.\w)"
)
_OUTPUT_CUE: Final = re.compile(r"\b(?:write|save|deliver\w*|output|produce|put|store)\b", re.IGNORECASE)
_GOAL_CUE: Final = re.compile(r"\b(?:to|into|in|as)\b")
_DEFINED: Final = re.compile(r"\b(?:def|class|func|fn|function|struct|interface)\s+([A-Za-z_]\w*)")
_UNCHANGED: Final = re.compile(r"(?:not|n't) changed|unchanged|already (?:read|seen|have)|proceed", re.IGNORECASE)
_NOTHING_WRITTEN: Final = re.compile(
    r"written nothing|wrote nothing|nothing (?:has been |was |is )?(?:yet )?written", re.IGNORECASE
)
_MISSING: Final = re.compile(
    r"not (?:been |yet )?written|(?:is|are|still) missing|does not exist|is empty", re.IGNORECASE
)
_NO_MATCH: Final = re.compile(r"\s*$|.*\b(?:no (?:match|result)|0 matches|nothing found)|\s*\[\]\s*$", re.IGNORECASE)
_FAILED: Final = re.compile(
    r"\s*[\"{\[]*\s*error\b|.{0,40}(?:no such file|not found|missing (?:required )?arg)", re.IGNORECASE
)
_SHORT_CHARS: Final = 600
"""What a harness says is short; a file that happens to say the same is longer."""


@dataclass(frozen=True, slots=True)
class Done:
    """One call that the agent has made, and what came back (None: nothing yet)."""

    name: str
    arguments: Mapping[str, Any]
    result: str | None

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return self.result is not None and _FAILED.match(self.result) is not None

    @property
    def empty(self) -> bool:
        """Whether a search found nothing."""
        return self._says(_NO_MATCH.match)

    @property
    def told_unchanged(self) -> bool:
        """Whether the harness answered that there is nothing new to learn."""
        return self._says(_UNCHANGED.search)

    def _says(self, matches: Callable[[str], object]) -> bool:
        return self.result is not None and len(self.result) <= _SHORT_CHARS and matches(self.result) is not None


def paths_in(text: str) -> list[str]:
    """The file names in a text, each once, in order."""
    return list(dict.fromkeys(match[1] for match in _PATH.finditer(text)))


def inputs_and_outputs(text: str) -> tuple[list[str], list[str]]:
    """The files that a task names: to be read, and (after a word such as `write` in the same line) to be written."""
    outputs: list[str] = []
    for line in text.splitlines():
        cue = _OUTPUT_CUE.search(line)
        rest = line[cue.end() :] if cue else ""
        goal = _GOAL_CUE.search(rest)  # "write notes on a.py to notes/a.md"
        outputs += (paths_in(rest[goal.end() :]) if goal else []) or paths_in(rest)
    outputs = list(dict.fromkeys(outputs))
    return [path for path in paths_in(text) if path not in outputs], outputs


def names_defined(texts: Iterable[str]) -> list[str]:
    """Functions, classes and the like that are defined in these texts, each once."""
    return list(dict.fromkeys(name for text in texts for name in _DEFINED.findall(text)))


def told_nothing_written(request: ChatRequest) -> bool:
    """Whether the harness has said that nothing, or not enough, is written."""
    for message in request.messages:
        text, role = message_text(message), message.get("role")
        if role in ("user", "system") and (_NOTHING_WRITTEN.search(text) or _MISSING.search(text[-_SHORT_CHARS:])):
            return True
        if role == "tool" and _NOTHING_WRITTEN.search(text):  # a file's own text may well say that something is missing
            return True
    return False


def history(request: ChatRequest) -> list[Done]:
    """The calls so far, in order: native tool calls, or actions written as JSON and answered by the user."""
    results = {
        str(message.get("tool_call_id")): message_text(message)
        for message in request.messages
        if message.get("role") == "tool"
    }
    done: list[Done] = []
    messages = request.messages
    for place, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        calls = message.get("tool_calls")
        if isinstance(calls, (list, tuple)) and calls:
            done += [_native(call, results) for call in calls if isinstance(call, Mapping)]
        elif (action := _action(message)) is not None:
            after = messages[place + 1] if place + 1 < len(messages) else None
            done.append(Done(*action, None if after is None else message_text(after)))
    return done


def _native(call: Mapping[str, Any], results: Mapping[str, str]) -> Done:
    function = call.get("function")
    function = function if isinstance(function, Mapping) else call
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = _object(arguments)
    arguments = arguments if isinstance(arguments, Mapping) else {}
    return Done(str(function.get("name")), arguments, results.get(str(call.get("id"))))


def _action(message: Message) -> tuple[str, Mapping[str, Any]] | None:
    """The name and the arguments of an action written as JSON; None for prose."""
    value = _object(message_text(message))
    if not value:
        return None
    name = next((value[key] for key in ACTION_KEYS if isinstance(value.get(key), str)), None)
    if name is None:
        return None
    inner = next((value[key] for key in ARGUMENT_KEYS if isinstance(value.get(key), Mapping)), None)
    return name, inner if inner is not None else {key: one for key, one in value.items() if key not in ACTION_KEYS}


ACTION_KEYS: Final = ("tool", "action", "name", "tool_name", "function")
"""What the field that names an action is called."""
ARGUMENT_KEYS: Final = ("arguments", "args", "parameters", "input")
"""What the field that holds its arguments is called, where they are not beside it."""


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
