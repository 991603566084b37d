"""Tool calls put together from the fragments of a stream.

What real servers do, and what is made of it:
  - fragments are joined by `index`, or by `id` where there is no index;
  - a name repeated as an empty string does not overwrite (LM Studio);
  - a new id *with a name* at a used index starts a new call (Ollama labels all parallel calls 0);
    a new id without a name goes on with the call (some vLLM versions invent one a fragment);
  - arguments as an object, as a string holding a JSON string, or sent twice are read; an empty string means none;
  - arguments that are not complete JSON make no call: they are neither run nor repaired by guess.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from widelane.records import ToolCall
from widelane.wire.json_text import decode_json, mend_surrogates

INCOMPLETE = "arguments are not complete JSON"
NOT_AN_OBJECT = "arguments are not a JSON object"
NO_NAME = "a tool call has no name"
_ID_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ID_CHARS = 9  # Mistral's templates accept exactly nine letters and digits


class _Partial:
    __slots__ = ("arguments", "id", "index", "name")

    def __init__(self, index: int | None, call_id: str, name: str) -> None:
        self.index = index
        self.id = call_id
        self.name = name
        self.arguments: list[str] = []

    def text(self) -> str:
        return mend_surrogates("".join(self.arguments)).strip()


class ToolCallAssembler:
    """Collects fragments; gives the calls once the reply is over."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: list[_Partial] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, fragments: Any) -> str:
        """Takes `delta.tool_calls`; gives the argument text it brought."""
        if isinstance(fragments, Mapping):
            fragments = [fragments]
        if not isinstance(fragments, list):
            return ""
        return "".join(self._fragment(fragment) for fragment in fragments if isinstance(fragment, Mapping))

    def feed_whole(self, calls: Any) -> None:
        """Takes `message.tool_calls` of an unstreamed reply: each entry is one whole call, whatever its index."""
        if not isinstance(calls, list):
            return
        for position, call in enumerate(calls):
            if isinstance(call, Mapping):
                self._fragment({**call, "index": position})

    def result(self, seed: str) -> tuple[list[ToolCall], str | None]:
        """The complete calls, and why another could not be used.

        Args:
            seed: what made-up ids are derived from, e.g. the reply's own id.
        """
        calls: list[ToolCall] = []
        problem: str | None = None
        used: set[str] = set()
        for position, partial in enumerate(self._calls):
            arguments, error = read_arguments(partial.text())
            if not partial.name:
                error = NO_NAME
            if error:
                problem = problem or error
                continue
            call_id = partial.id if partial.id and partial.id not in used else made_up_id(seed, position)
            used.add(call_id)
            calls.append(ToolCall(call_id, partial.name, arguments))
        return calls, problem

    def _fragment(self, fragment: Mapping[str, Any]) -> str:
        function = fragment.get("function")
        if not isinstance(function, Mapping):
            function = fragment  # a few servers leave the wrapping out
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        arguments = _argument_text(function.get("arguments"))
        index = fragment.get("index")
        index = index if isinstance(index, int) else None
        call_id = fragment.get("id")
        call_id = call_id if isinstance(call_id, str) else ""
        call = self._find(index, call_id, name, arguments)
        if call is None:
            call = _Partial(index, call_id, name)
            self._calls.append(call)
        call.name = name or call.name
        call.id = call.id or call_id
        call.arguments.append(arguments)
        return arguments

    def _find(self, index: int | None, call_id: str, name: str, arguments: str) -> _Partial | None:
        """The call that a fragment goes on with; None when it starts one."""
        if index is None:
            same = [call for call in self._calls if call_id and call.id == call_id]
            candidate = same[-1] if same else (self._calls[-1] if self._calls and not (call_id and name) else None)
        else:
            candidate = next((call for call in reversed(self._calls) if call.index == index), None)
        if candidate is None or (call_id and candidate.id == call_id) or not name or not candidate.name:
            return candidate
        # A name at a used place, and not the id it had: the same call repeating its name, or the next one.
        so_far = candidate.text()
        if name == candidate.name and not arguments.lstrip().startswith("{") and not _is_whole(so_far):
            return candidate
        if name == candidate.name and not call_id and not so_far:
            return candidate
        return None


def read_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """The arguments as an object, and what is wrong with them (None when nothing is)."""
    if not text:
        return {}, None
    value: Any = text
    for _ in range(2):  # some servers encode the JSON text once more as a JSON string
        if not isinstance(value, str):
            break
        try:
            value = decode_json(_once(value).encode("utf-8", "replace"))
        except ValueError:
            return {}, INCOMPLETE
    if value is None:
        return {}, None
    return (value, None) if isinstance(value, dict) else ({}, NOT_AN_OBJECT)


def made_up_id(seed: str, position: int) -> str:
    """An id for the call at `position`: the same for the same reply, another for any other."""
    number = int.from_bytes(hashlib.blake2b(f"{seed}/{position}".encode(), digest_size=8).digest())
    digits = []
    for _ in range(_ID_CHARS):
        number, digit = divmod(number, len(_ID_ALPHABET))
        digits.append(_ID_ALPHABET[digit])
    return "".join(digits)


def _argument_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


def _once(text: str) -> str:
    """The text, or its half where a server sent the whole of it again at the end."""
    half, odd = divmod(len(text), 2)
    return text[:half] if not odd and half > 2 and text[0] == "{" and text[:half] == text[half:] else text


def _is_whole(text: str) -> bool:
    if not text:
        return False
    try:
        decode_json(text.encode("utf-8", "replace"))
    except ValueError:
        return False
    return True
