"""What a run has to say about its server: conditions seen in replies, and incidents with the width they came at."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from widelane.records import ChatRequest, Reply

REMEMBERED_ANSWERS = 4096
BURST_CHUNKS = 8
BURST_S, BURST_CALL_S = 0.005, 0.5
"""Eight chunks within 5 ms, at the end of a call of half a second or more: 1,600 tokens/s in one stream, which no
model writes on a local machine. Something on the way (a proxy) held the stream back."""


class IncidentKind(StrEnum):
    """What happened to the server or because of it."""

    OVERLOADED = "overloaded"
    POOL_OVERFLOW = "pool-overflow"
    SERVER_DOWN = "server-down"
    LOADING = "loading"
    RETRIES_HELD_BACK = "retries-held-back"


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident.

    Attributes:
        t_ns: when, on the run's clock.
        width: calls in flight at that moment, the failing one included.
        new_width: the width in force afterwards.
        detail: the server's words.
    """

    kind: IncidentKind
    t_ns: int
    width: int
    new_width: int
    detail: str


class Notices:
    """Collects warnings, each once a server with the number of replies that showed it."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()

    def read(self, request: ChatRequest, reply: Reply) -> None:
        """Note what a reply shows."""
        for warning in reply.warnings:
            self._add(warning)
        if is_burst(reply):
            self._add("buffered_stream")
        if request.seed is not None and request.temperature == 0:
            self._compare(request, reply)

    def _add(self, warning: str) -> None:
        self.counts[warning] = self.counts.get(warning, 0) + 1

    def _compare(self, request: ChatRequest, reply: Reply) -> None:
        """The same request with a seed at temperature 0 should give the same answer. Under load it often does not."""
        asked = _digest(request)
        answered = _digest((reply.text, reply.reasoning, [(call.name, call.arguments) for call in reply.tool_calls]))
        known = self._answers.setdefault(asked, answered)
        if known != answered:
            self._add("not_reproducible")
        self._answers.move_to_end(asked)
        while len(self._answers) > REMEMBERED_ANSWERS:
            self._answers.popitem(last=False)


def is_burst(reply: Reply) -> bool:
    """Whether a stream came in one burst at its end; its first-token and inter-token times then mean nothing."""
    times = reply.timing.chunk_ns
    if not reply.timing.streamed or len(times) < BURST_CHUNKS:
        return False
    return times[-1] - times[0] < BURST_S * 1e9 and times[-1] - reply.timing.sent_ns >= BURST_CALL_S * 1e9


def _digest(value: object) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=16).digest()
