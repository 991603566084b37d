"""Witnesses: they stand between the lanes and the server, and between the lanes and the store, and note what passes.

What can be judged at once is judged at once: `broken` collects it with the time at which it was seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.crash import Crash
from tests.chaos.items import key_of, said
from widelane.errors import CallError, ConnectionRefused
from widelane.lanes.lanes import Lanes
from widelane.lanes.store import RunStore
from widelane.records import ChatRequest, Delta, HttpReply, Observer, Reply, Span
from widelane.sim.server import SimServer
from widelane.wire.conditions import past_limit


def now_s() -> float:
    """The loop's time."""
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class Attempt:
    """One request that was sent.

    Attributes:
        refused: nobody was there to send it to.
        used_tokens: what it took, by the server's count or else by what was seen; None while it runs.
        beyond_tokens: of which the server took more than it had been told it may.
    """

    key: str
    begun_s: float
    refused: bool = False
    ended_s: float | None = None
    used_tokens: int = 0
    beyond_tokens: int = 0


@dataclass(slots=True)
class Witness:
    """What was seen in one session.

    Attributes:
        broken: promises that were not kept.
        trace: everything in order, with its time.
        faults: by key, the fault that its latest answered request met.
        acknowledged: (kind, key) and what was stored, of every record that the store said it holds.
        most_active: most requests that were under way at once.
        over: the process was killed: whatever still moves in its loop has not happened.
        then: called after each entry of the trace.
    """

    broken: list[str] = field(default_factory=list)
    trace: list[tuple[Any, ...]] = field(default_factory=list)
    faults: dict[str, str | None] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    acknowledged: list[tuple[str, str, Any]] = field(default_factory=list)
    most_active: int = 0
    over: bool = False
    then: Callable[[], None] = lambda: None

    def note(self, what: str, *values: Any) -> None:
        """Something happened."""
        if not self.over:
            self.trace.append((now_s(), what, *values))
            self.then()

    def blame(self, words: str) -> None:
        """A promise was broken."""
        if not self.over:
            self.broken.append(f"at {now_s():.6f} s: {words}")

    def finished_keys(self) -> set[str]:
        """Keys of calls whose reply is stored."""
        return {key for kind, key, _ in self.acknowledged if kind == "finished"}


class WatchedBackend:
    """The server as the lanes see it.

    Attributes:
        lanes: who sends; set once they are there.
        deadline_s: when the run's seconds are over, None for never.
        answered: called when a request is over, before its lane is free.
    """

    def __init__(self, server: SimServer, witness: Witness, finished_before: set[str]) -> None:
        self.url = server.url
        self.lanes: Lanes | None = None
        self.deadline_s: float | None = None
        self.answered: Callable[[], None] = lambda: None
        self._server = server
        self._witness = witness
        self._finished_before = finished_before
        self._active: Counter[str] = Counter()
        self._lanes_seen = 0

    def widened(self) -> None:
        """To be called before the width is changed: what runs may go on under a smaller one."""
        self._look()

    async def fetch(self, method: str, path: str, body: object = None, *, timeout_s: float = 10.0) -> HttpReply:
        return await self._server.fetch(method, path, body, timeout_s=timeout_s)

    async def complete(self, request: ChatRequest, observe: Observer | None = None) -> Reply:
        key = key_of(request)
        attempt = self._begin(key)
        chunks = 0

        def seen(delta: Delta) -> None:
            nonlocal chunks
            chunks += 1
            if observe is not None:
                observe(delta)

        outcome, partial = "cancelled", None
        try:
            partial = await self._server.complete(request, seen)
            outcome = "ok"
            return partial
        except CallError as error:
            outcome, partial = error.code, error.partial
            attempt.refused = isinstance(error, ConnectionRefused)
            raise
        finally:
            self._count(attempt, request, partial, chunks, outcome)
            self._end(attempt, outcome)

    def _begin(self, key: str) -> Attempt:
        witness = self._witness
        self._look()
        if self._active[key]:
            witness.blame(f"{key} was sent while it was under way")
        if key in self._finished_before or key in witness.finished_keys():
            witness.blame(f"{key} was asked again although its answer is stored")
        if ("started", key) not in {(kind, stored) for kind, stored, _ in witness.acknowledged}:
            witness.blame(f"{key} was sent before its start was stored")
        if self.deadline_s is not None and now_s() >= self.deadline_s:
            witness.blame(f"{key} was sent at or after the end of the run's seconds ({self.deadline_s} s)")
        self._active[key] += 1
        active = self._active.total()
        witness.most_active = max(witness.most_active, active)
        assert self.lanes is not None
        if active > self.lanes.in_flight:
            witness.blame(f"{active} requests under way on {self.lanes.in_flight} lanes")
        attempt = Attempt(key, now_s())
        if not witness.over:
            witness.attempts.append(attempt)
        witness.note("sent", key)
        return attempt

    def _end(self, attempt: Attempt, outcome: str) -> None:
        attempt.ended_s = now_s()
        self._active[attempt.key] -= 1
        self._witness.note("answered", attempt.key, outcome, attempt.used_tokens)
        self.answered()
        self._look()

    def _count(self, attempt: Attempt, request: ChatRequest, partial: Reply | None, chunks: int, outcome: str) -> None:
        estimate = request.prompt_tokens_estimate or 0
        usage = partial.usage if partial is not None else None
        if usage is not None:
            prompt = estimate if usage.prompt_tokens is None else usage.prompt_tokens
            attempt.used_tokens = prompt + usage.completion_tokens
            if prompt > estimate:
                self._witness.blame(f"the test's estimate of {attempt.key} is too low: {estimate} of {prompt}")
        elif chunks or outcome == "ok":
            attempt.used_tokens = estimate + chunks
        limit = request.max_tokens or 0
        beyond = max(0, attempt.used_tokens - estimate - limit * request.n)
        # What is not streamed cannot be stopped: it comes as one body, however long.
        if request.stream and beyond > (past_limit(limit) + 1) * request.n:
            self._witness.blame(f"{attempt.key} went {beyond} tokens past its limit of {limit}")
        attempt.beyond_tokens = beyond

    def _look(self) -> None:
        """Lanes in use grow only while fewer than the width are."""
        if self.lanes is None:
            return
        held = self.lanes.in_flight
        if held > max(self.lanes.width, self._lanes_seen):
            self._witness.blame(f"{held} lanes in use, width {self.lanes.width}, {self._lanes_seen} before")
        self._lanes_seen = held


class WatchedStore:
    """The run's store as the lanes see it; where the crash says so, the process dies at a write."""

    def __init__(self, store: RunStore, witness: Witness, crash: Crash) -> None:
        self._store = store
        self._witness = witness
        self._crash = crash

    @property
    def session(self) -> int:
        return self._store.session

    def reply(self, key: str) -> Reply | None:
        return self._store.reply(key)

    def get(self, kind: str, key: str) -> Any:
        return self._store.get(kind, key)

    async def started(self, key: str) -> None:
        if await self._crash.write(self._store.started(key)):
            self._acknowledge("started", key, None)

    async def finished(self, span: Span, reply: Reply | None) -> None:
        if await self._crash.write(self._store.finished(span, reply)):
            kind = "failed" if reply is None else "finished"
            self._acknowledge(kind, span.key, None if reply is None else said(reply))

    async def put(self, kind: str, key: str, value: Any) -> None:
        if await self._crash.write(self._store.put(kind, key, value)):
            self._acknowledge(kind, key, value)

    def _acknowledge(self, kind: str, key: str, value: Any) -> None:
        self._witness.acknowledged.append((kind, key, value))
        self._witness.note("stored", kind, key)
