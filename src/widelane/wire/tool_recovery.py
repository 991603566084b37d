"""Tool calls that the server left in the text, recovered.

Done only when tools were offered, only for names that were offered, never inside code and never inside thought. Each
family of models writes calls in its own way; `_READERS` lists them. A call that is cut off is not run: it is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from widelane.wire.json_text import decode_prefix
from widelane.wire.special_tokens import inside_code
from widelane.wire.tool_calls import INCOMPLETE, read_arguments


class FoundCall(NamedTuple):
    """A call found in the text between `start` and `end`; `arguments` is None when it is cut off."""

    start: int
    end: int
    name: str
    arguments: Mapping[str, Any] | None


class Recovered(NamedTuple):
    """The text without the calls, the calls as (name, arguments), and why one could not be used."""

    text: str
    calls: list[tuple[str, Mapping[str, Any]]]
    error: str | None


def recover_tool_calls(text: str, tools: Sequence[Mapping[str, Any]]) -> Recovered:
    """The calls that stand in `text`, taken out of it."""
    schemas = parameter_schemas(tools)
    if not schemas or not _MAY_HOLD_A_CALL.search(text):
        return Recovered(text, [], None)
    for reader in _READERS:
        found = [call for call in reader(text, schemas) if call.name in schemas and not inside_code(text, call.start)]
        if found:
            return _taken_out(text, found)
    return Recovered(text, [], None)


def parameter_schemas(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The parameters' schemas by tool name: `{name: {parameter: schema}}`."""
    schemas: dict[str, Mapping[str, Any]] = {}
    for tool in tools:
        function = tool.get("function")
        function = function if isinstance(function, Mapping) else tool
        name = function.get("name")
        parameters = function.get("parameters")
        properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
        if isinstance(name, str):
            schemas[name] = properties if isinstance(properties, Mapping) else {}
    return schemas


def _taken_out(text: str, found: list[FoundCall]) -> Recovered:
    rest: list[str] = []
    at = 0
    for call in found:
        rest.append(text[at : call.start])
        at = max(at, call.end)
    rest.append(text[at:])
    whole = [(call.name, call.arguments) for call in found if call.arguments is not None]
    cut_off = len(whole) < len(found)
    return Recovered(_LEFT_OVER.sub("", "".join(rest)).strip(), whole, INCOMPLETE if cut_off else None)


# --- the forms

_MAY_HOLD_A_CALL = re.compile(r"[{<\[]")
_LEFT_OVER = re.compile(
    r"</?(?:tool_calls?|tools|function_calls|minimax:tool_call)>?|<\|tool_calls_section_(?:begin|end)\|>"
    r"|<｜tool▁calls▁(?:begin|end)｜>|</?tool_\w*\Z"
)
_Schemas = Mapping[str, Mapping[str, Any]]
_Reader = Callable[[str, _Schemas], Iterator[FoundCall]]

_FUNCTION = re.compile(r"(?:<tool_call>\s*)?<function=\s*\"?(?P<name>[\w.\-]+)\"?\s*>")
_FUNCTION_END = re.compile(r"\s*</function>(?:\s*</tool_call>)?")
_PARAMETER = re.compile(r"\s*<parameter=\s*\"?(?P<key>[\w.\-]+)\"?\s*>(?P<value>[\s\S]*?)</parameter>")


def _function_tags(text: str, schemas: _Schemas) -> Iterator[FoundCall]:
    """Qwen-coder XML, `<function=f><parameter=p>v</parameter></function>`; Llama 3.1, `<function=f>{…}</function>`."""
    for opening in _FUNCTION.finditer(text):
        name, at = opening["name"], opening.end()
        arguments: Mapping[str, Any] | None
        if text[at:].lstrip().startswith("{"):
            arguments, at = _json_object(text, at)
        else:
            arguments = {}
            while parameter := _PARAMETER.match(text, at):
                arguments[parameter["key"]] = _typed(parameter["value"], schemas.get(name, {}).get(parameter["key"]))
                at = parameter.end()
        closing = _FUNCTION_END.match(text, at)
        if closing is None:
            yield FoundCall(opening.start(), len(text), name, None)
            return
        yield FoundCall(opening.start(), closing.end(), name, arguments)


_INVOKE = re.compile(
    r"<invoke name=\"(?P<name>[^\"]+)\">(?P<body>[\s\S]*?)(?:(?P<end></invoke>)|\Z)",
)
_INVOKE_PARAMETER = re.compile(r"<parameter name=\"(?P<key>[^\"]+)\"[^>]*>(?P<value>[\s\S]*?)</parameter>")
_GLM = re.compile(
    r"<tool_call>\s*(?P<name>[\w.\-]+)\s*(?P<body>(?:<arg_key>[\s\S]*?)?)(?:(?P<end></tool_call>)|\Z)",
)
_GLM_PARAMETER = re.compile(r"<arg_key>(?P<key>[\s\S]*?)</arg_key>\s*<arg_value>(?P<value>[\s\S]*?)</arg_value>")


def _tagged_parameters(outer: re.Pattern[str], inner: re.Pattern[str]) -> _Reader:
    """MiniMax's and Claude's `<invoke>`, GLM's `<arg_key>`: a name and parameters, each between tags."""

    def read(text: str, schemas: _Schemas) -> Iterator[FoundCall]:
        for call in outer.finditer(text):
            known = schemas.get(call["name"], {})
            arguments = {
                parameter["key"].strip(): _typed(parameter["value"], known.get(parameter["key"].strip()))
                for parameter in inner.finditer(call["body"])
            }
            yield FoundCall(call.start(), call.end(), call["name"], arguments if call["end"] else None)

    return read


_NAMED_JSON = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>\w+ to=functions\.(?P<harmony>[\w.\-]+)[^<]*"
    r"(?:<\|constrain\|>\w+)?\s*<\|message\|>"
    r"|<\|tool_call_begin\|>(?:functions\.)?(?P<kimi>[\w.\-]+?)(?::\d+)?\s*<\|tool_call_argument_begin\|>"
    r"|<｜tool▁call▁begin｜>function<｜tool▁sep｜>(?P<deepseek>[\w.\-]+)\s*```json"
    r"|<｜tool▁call▁begin｜>(?P<deepseek31>[\w.\-]+)<｜tool▁sep｜>"
    r"|\[TOOL_CALLS\]\s*(?P<mistral>[\w.\-]+)(?:\[CALL_ID\][\w]+)?(?:\[ARGS\])?(?=\s*\{)"
)
_NAMED_JSON_END = re.compile(r"\s*(?:```)?\s*(?:<\|call\|>|<\|tool_call_end\|>|<｜tool▁call▁end｜>)?")


def _named_json(text: str, schemas: _Schemas) -> Iterator[FoundCall]:
    """A name between marks and then the arguments as JSON: gpt-oss, Kimi, DeepSeek, newer Mistral."""
    for opening in _NAMED_JSON.finditer(text):
        name = next(group for group in opening.groups() if group)
        arguments, end = _json_object(text, opening.end())
        closing = _NAMED_JSON_END.match(text, end)
        yield FoundCall(opening.start(), closing.end() if closing else end, name, arguments)


_TAGGED_JSON = re.compile(r"<tool_calls?>|<tools>|<\|tool_calls?\|>|<\|python_tag\|>|\[TOOL_CALLS\]|functools(?=\[)")
_TAGGED_JSON_END = re.compile(r"\s*(?:</tool_calls?>|</tools>|<\|/tool_calls?\|>|<\|eom_id\|>|;)?")


def _tagged_json(text: str, schemas: _Schemas) -> Iterator[FoundCall]:
    """A mark and then `{"name": …, "arguments": …}`, or a list of them: Hermes, Llama 3, Mistral, Granite, Phi."""
    at = 0
    while opening := _TAGGED_JSON.search(text, at):
        start, at = opening.start(), opening.end()
        if not text[at:].lstrip().startswith(("{", "[")):
            continue
        while True:
            try:
                value, end = decode_prefix(text, at)
            except ValueError:
                if text[at:].lstrip().startswith(("{", "[")):
                    yield FoundCall(start, len(text), _cut_name(text, at), None)
                    at = len(text)
                break
            closing = _TAGGED_JSON_END.match(text, end)
            at = closing.end() if closing else end
            yield from _as_calls(value, start, at)
            start = at


def _cut_name(text: str, at: int) -> str:
    found = re.compile(r'"name"\s*:\s*"([^"]+)"').search(text, at)
    return found[1] if found else ""


def _whole_body(text: str, schemas: _Schemas) -> Iterator[FoundCall]:
    """Nothing but `{"name": …, "parameters": …}`: what Llama 3 writes when its parser is missing."""
    body = text.strip()
    fenced = re.fullmatch(r"```(?:json)?\s*([\s\S]*?)\s*```", body)
    try:
        value, end = decode_prefix(fenced[1] if fenced else body, 0)
    except ValueError:
        return
    if end == len(fenced[1] if fenced else body):
        yield from _as_calls(value, 0, len(text))


def _as_calls(value: Any, start: int, end: int) -> Iterator[FoundCall]:
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, Mapping):
            continue
        function = item.get("function")
        call = function if isinstance(function, Mapping) else item
        name = function if isinstance(function, str) else call.get("name")
        if not isinstance(name, str) or not ("arguments" in call or "parameters" in call):
            continue  # {"name": "read"} alone may be an answer about something of that name
        arguments = call.get("arguments", call.get("parameters"))
        if arguments is None or isinstance(arguments, str):
            decoded, error = read_arguments((arguments or "").strip())
            yield FoundCall(start, end, name, None if error else decoded)
        elif isinstance(arguments, Mapping):
            yield FoundCall(start, end, name, arguments)


def _json_object(text: str, at: int) -> tuple[Mapping[str, Any] | None, int]:
    try:
        value, end = decode_prefix(text, at)
    except ValueError:
        return None, len(text)
    return (value, end) if isinstance(value, Mapping) else (None, len(text))


def _typed(value: str, schema: Any) -> Any:
    """A parameter's text as its schema wants it. Without one, or for a string, the text without its outer newlines."""
    text = value.removeprefix("\r").removeprefix("\n").removesuffix("\n").removesuffix("\r")
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    kinds = [kinds] if isinstance(kinds, str) else (kinds if isinstance(kinds, list) else [])
    if not kinds or "string" in kinds:
        return text
    bare = text.strip()
    if "boolean" in kinds and bare.lower() in ("true", "false"):
        return bare.lower() == "true"
    try:
        decoded, end = decode_prefix(bare, 0)
    except ValueError:
        return text
    return decoded if end == len(bare) else text


_READERS: tuple[_Reader, ...] = (
    _function_tags,
    _named_json,
    _tagged_json,
    _tagged_parameters(_INVOKE, _INVOKE_PARAMETER),
    _tagged_parameters(_GLM, _GLM_PARAMETER),
    _whole_body,
)
