"""The tools that a worker is offered, told apart by what they are called."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from widelane.records import ChatRequest, ToolCall
from widelane.sim.answers.agent.reading import ACTION_KEYS, ARGUMENT_KEYS
from widelane.sim.answers.plain import function_of, tool_call
from widelane.sim.answers.request_text import wanted_schema
from widelane.sim.answers.schema import Schema, conforming, resolved


class Kind(StrEnum):
    """What a tool is for."""

    LIST = "list"
    READ = "read"
    SEARCH = "search"
    WRITE = "write"
    EDIT = "edit"
    RUN = "run"
    FINISH = "finish"


_WORDS: Final = {
    Kind.SEARCH: ("search", "grep", "find"),
    Kind.LIST: ("list", "ls", "tree", "glob"),
    Kind.READ: ("read", "open", "cat", "view"),
    Kind.EDIT: ("edit", "replace", "patch"),
    Kind.WRITE: ("write", "create", "save"),
    Kind.RUN: ("run", "exec", "bash", "shell"),
    Kind.FINISH: ("finish", "done", "submit", "complete"),
}
_PARAMETERS: Final = {
    "path": ("path", "file", "dir", "folder"),
    "content": ("content", "text", "body", "data"),
    "pattern": ("pattern", "query", "regex", "term"),
}


class Tools:
    """The tools of one request."""

    __slots__ = ("_by_kind", "_schema")

    def __init__(self, request: ChatRequest) -> None:
        self._schema = None if request.tools else wanted_schema(request)
        functions: Iterable[Mapping[str, Any]]
        if self._schema is not None:
            functions = _actions(self._schema)
        else:
            functions = [function_of(tool) for tool in request.tools]
        self._by_kind: dict[Kind, Mapping[str, Any]] = {}
        for function in functions:
            kind = _kind(str(function.get("name", "")))
            if kind is not None:
                self._by_kind.setdefault(kind, function)

    def __contains__(self, kind: Kind) -> bool:
        return kind in self._by_kind

    def __bool__(self) -> bool:
        return Kind.READ in self._by_kind or Kind.WRITE in self._by_kind

    @property
    def native(self) -> bool:
        """False where calls are JSON that a schema constrains."""
        return self._schema is None

    def kind_of(self, name: str) -> Kind | None:
        """What the tool of this name is for; None when it is not offered."""
        return next((kind for kind, function in self._by_kind.items() if function.get("name") == name), None)

    def call(self, kind: Kind, wanted: Mapping[str, Any], rng: random.Random, *, complete: bool = True) -> ToolCall:
        """A call of the tool of this kind, arguments by meaning (`path`, `content`, `pattern`) under its own names.

        Args:
            complete: add what is required and not in `wanted`; without it the call may be malformed.
        """
        function = self._by_kind[kind]
        parameters = function.get("parameters") or {}
        properties: Mapping[str, Any] = parameters.get("properties") or {}
        arguments = {_own_name(meaning, properties): value for meaning, value in wanted.items()}
        for name in parameters.get("required") or ():
            if complete and name not in arguments:
                arguments[name] = conforming(properties.get(name, {}), None, rng)
        if properties:
            arguments = {name: value for name, value in arguments.items() if name in properties}
        return tool_call(str(function["name"]), arguments, rng)

    def meaning(self, arguments: Mapping[str, Any], meaning: str) -> Any:
        """The argument with this meaning of a call that was made; None when it had none."""
        return next((value for name, value in arguments.items() if _means(name, meaning)), None)

    def action(self, call: ToolCall) -> dict[str, Any]:
        """The call as the JSON value that the request's schema wants."""
        for branch in _branches(self._schema or {}):
            name_key, arguments_key = _keys(branch, self._schema or {})
            if name_key is not None and call.name in _named(branch["properties"][name_key]):
                return {name_key: call.name, **({arguments_key: call.arguments} if arguments_key else call.arguments)}
        return {ACTION_KEYS[0]: call.name, ARGUMENT_KEYS[0]: call.arguments}


def _kind(name: str) -> Kind | None:
    words = name.lower().replace("-", "_").split("_")
    return next((kind for kind, known in _WORDS.items() if any(word.startswith(known) for word in words)), None)


def _own_name(meaning: str, properties: Mapping[str, Any]) -> str:
    return next((name for name in properties if _means(name, meaning)), meaning)


def _means(name: str, meaning: str) -> bool:
    return any(word in name.lower() for word in _PARAMETERS[meaning])


# --- actions that a schema describes


def _branches(schema: Schema) -> list[Schema]:
    schema = resolved(schema, schema)
    found = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return [resolved(schema, branch) for branch in found]


def _named(schema: Schema) -> tuple[str, ...]:
    """The names that the field of this schema can hold."""
    return tuple(schema["enum"]) if "enum" in schema else (schema["const"],) if "const" in schema else ()


def _keys(branch: Schema, root: Schema) -> tuple[str | None, str | None]:
    """The field that names the action and the one that holds its arguments; None where there is none."""
    properties: Mapping[str, Any] = branch.get("properties") or {}
    name_key = next((key for key in ACTION_KEYS if key in properties and _named(properties[key])), None)
    arguments_key = next((key for key in ARGUMENT_KEYS if key in properties), None)
    return name_key, arguments_key


def _actions(schema: Schema) -> list[Mapping[str, Any]]:
    """The actions as functions: name and parameters."""
    actions: list[Mapping[str, Any]] = []
    for branch in _branches(schema):
        name_key, arguments_key = _keys(branch, schema)
        if name_key is None:
            continue
        properties: Mapping[str, Any] = branch["properties"]
        beside = {key: value for key, value in properties.items() if key != name_key}
        parameters = resolved(schema, properties[arguments_key]) if arguments_key else {"properties": beside}
        actions += [{"name": name, "parameters": parameters} for name in _named(properties[name_key])]
    return actions
