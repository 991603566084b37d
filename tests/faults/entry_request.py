"""The request of a catalogue entry: a plain streaming chat completion, shaped by the entry's `request`."""

from datetime import datetime
from typing import Any

from widelane.records import ChatRequest

KNOWN = {"stream", "n", "seed", "temperature", "max_tokens", "logprobs", "prompt_chars", "local_clock", "top_p", "stop",
         "response_format", "tools", "tool_choice", "model", "messages", "extra", "cancel_after_s"}  # fmt: skip
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_SENTENCE = "The quick brown fox jumps over the lazy dog and runs on. "


def build_request(entry: dict[str, Any]) -> ChatRequest:
    """The request; an unknown key fails, naming it."""
    asked = dict(entry.get("request") or {})
    unknown = asked.keys() - KNOWN
    if unknown:
        raise AssertionError(f"{entry['name']}: this harness does not know the request key(s) {sorted(unknown)}")
    asked.pop("local_clock", None)
    asked.pop("cancel_after_s", None)
    characters = asked.pop("prompt_chars", None)
    offered = asked.pop("tools", None)
    prompt = "Say hello to the world." if characters is None else _text(characters)
    fields: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}], **asked}
    if offered is not False and (offered or _wants_tools(entry)):
        fields["tools"] = _tools(entry, offered if isinstance(offered, list) else [])
    return ChatRequest(**fields)


def wall_clock_s(entry: dict[str, Any]) -> float:
    """What the client's wall clock shows at the start."""
    stated = (entry.get("request") or {}).get("local_clock")
    return 0.0 if stated is None else datetime.fromisoformat(stated).timestamp()


def poisoned(request: ChatRequest) -> ChatRequest:
    """The same request with a history in which a tool call's arguments are broken JSON."""
    call = {
        "id": "a1",
        "type": "function",
        "function": {"name": "run", "arguments": '{"cmd": "mkdir -p /tmp/x && cat > '},
    }
    history = [
        {"role": "user", "content": "Make a folder."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a1", "content": "error: the arguments are not complete JSON"},
    ]
    return ChatRequest(messages=[*history, *request.messages], tools=request.tools, stream=request.stream)


def _text(characters: int) -> str:
    return (_SENTENCE * (characters // len(_SENTENCE) + 1))[:characters]


def _wants_tools(entry: dict[str, Any]) -> bool:
    return entry.get("class") == "tools" or bool({"tool_calls", "tool_error"} & entry["expect"].keys())


def _tools(entry: dict[str, Any], named: list[Any]) -> list[dict[str, Any]]:
    """read(path), run(cmd), list(), and what the expected calls use, with the types of their arguments."""
    parameters: dict[str, dict[str, Any]] = {"read": {"path": "string"}, "run": {"cmd": "string"}, "list": {}}
    for name, arguments in entry["expect"].get("tool_calls") or ():
        known = parameters.setdefault(name, {})
        known.update({key: _TYPES.get(type(value), "string") for key, value in arguments.items()})
    for tool in named:
        if isinstance(tool, str):
            parameters.setdefault(tool, {})
    whole = [tool for tool in named if isinstance(tool, dict)]
    return whole or [_tool(name, types) for name, types in parameters.items()]


def _tool(name: str, types: dict[str, str]) -> dict[str, Any]:
    schema = {
        "type": "object", "properties": {key: {"type": kind} for key, kind in types.items()}, "required": list(types)
    }  # fmt: skip
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}
