"""A random generator of its own for every request, so that answers do not depend on who came first.

It is seeded with the server's seed and what the request asks: with a hash of the text, never Python's `hash`. A request
that a real server would answer the same way twice (a `seed`, or temperature 0) always gets the same generator. One
without either gets a further generator for every repetition, so that six identical requests are six samples; identical
requests cannot be told apart, so which of them came first makes no difference either.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from widelane.records import ChatRequest

_WITHOUT_INFLUENCE: Final = frozenset(
    {
        "cache_prompt", "cache_salt", "id_slot", "ignore_eos", "max_completion_tokens", "max_tokens", "min_tokens",
        "model", "n_predict", "priority", "return_progress", "return_token_ids", "slot_id", "stop", "stream",
        "stream_options", "timings_per_token", "user",
    }
)  # fmt: skip
"""Body fields that decide how an answer is cut, cached or sent, and not what it says."""
_REMEMBERED: Final = 1 << 18
"""Requests whose repetitions are counted; those not asked for longest are forgotten, and begin anew."""


class AnswerRandomness:
    """Makes the generators of one simulated server."""

    __slots__ = ("_repeats", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._repeats: dict[str, int] = {}

    def of(self, request: ChatRequest, choice: int = 0) -> random.Random:
        """The generator for this request.

        Args:
            choice: number of the choice where `n` asks for several, from 0.
        """
        digest = request_digest(request)
        repeat = 0
        if request.seed is None and request.temperature != 0:
            name = f"{digest}/{choice}"
            repeat = self._repeats.pop(name, 0)
            if len(self._repeats) >= _REMEMBERED:
                del self._repeats[next(iter(self._repeats))]
            self._repeats[name] = repeat + 1
        return random.Random(f"{self._seed}/{digest}/{choice}/{repeat}")


def request_digest(request: ChatRequest) -> str:
    """32 hexadecimal digits that stand for what the request asks: the same in any process, over HTTP or in memory."""
    asked: dict[str, Any] = {
        "messages": [_plain_message(message) for message in request.messages],
        "prompt": request.prompt,
        "temperature": _number(request.temperature),
        "top_p": _number(request.top_p),
        "seed": request.seed,
        "tools": request.tools,
        "tool_choice": request.tool_choice,
        "response_format": request.response_format,
        "extra": {name: value for name, value in request.extra.items() if name not in _WITHOUT_INFLUENCE},
    }
    body = msgspec.json.encode(asked, enc_hook=_plain, order="deterministic")
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def _plain_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message, arguments of its tool calls decoded: over HTTP they are a string, in memory often an object."""
    calls = message.get("tool_calls")
    if not isinstance(calls, (list, tuple)):
        return dict(message)
    return {**message, "tool_calls": [_plain_call(call) for call in calls]}


def _plain_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(arguments, str):
        return call
    try:
        decoded = msgspec.json.decode(arguments or "{}")
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": decoded}}


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)  # 0 and 0.0 ask for the same


def _plain(value: Any) -> Any:
    """A value that JSON has no form for: other mappings as objects, anything else by its name."""
    return dict(value) if isinstance(value, Mapping) else repr(value)
