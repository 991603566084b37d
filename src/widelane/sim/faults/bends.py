"""What stands between a reply and its connection, and spoils it: one outlet a kind of fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from widelane.sim.faults.rewrites import Rewrite
from widelane.sim.http_connection import HttpConnection
from widelane.sim.refusal import PlainReply
from widelane.sim.reply_form import EventKind, StreamEvent

CUT_AFTER = 3
"""Events that come before a stream is cut: something has been said, and more was to come."""
_SLOW_S = 240


class Straight:
    """No fault: what the others differ from."""

    def __init__(self, connection: HttpConnection, speed: float | None) -> None:
        self._connection = connection
        self._speed = speed
        self._over = False

    def plain(self, reply: PlainReply) -> None:
        self._connection.plain(reply)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._connection.begin(status, headers)

    def events(self, events: Sequence[StreamEvent]) -> None:
        for event in events:
            if not self._over:
                self.event(event)

    def event(self, event: StreamEvent) -> None:
        self._connection.events([event])

    def end(self) -> None:
        if not self._over:
            self._over = True
            self._connection.end()


class Cut(Straight):
    """The connection is closed or reset after some events, or in the middle of one."""

    def __init__(self, connection: HttpConnection, speed: float | None, how: str) -> None:
        super().__init__(connection, speed)
        self._how = how
        self._seen = 0

    def plain(self, reply: PlainReply) -> None:
        """An unstreamed body is cut in its middle."""
        self._connection.begin(reply.status, {"content-type": reply.content_type})
        self._connection.chunk(reply.body[: len(reply.body) // 2])
        self._cut()

    def event(self, event: StreamEvent) -> None:
        self._seen += 1
        last = self._seen >= CUT_AFTER or event.kind is EventKind.FINISH
        if last and self._how == "inside":
            self._connection.chunk(event.data[: len(event.data) // 2])
        elif not (last and event.kind is EventKind.FINISH):
            self._connection.events([event])
        if last:
            self._cut()

    def _cut(self) -> None:
        self._over = True
        if self._how == "reset":
            self._connection.reset()
        else:
            self._connection.close()


class Hanging(Straight):
    """Nothing more comes, and the connection stays open: before the headers, or after some events."""

    def __init__(self, connection: HttpConnection, speed: float | None, events: int) -> None:
        super().__init__(connection, speed)
        self._left = events

    def plain(self, reply: PlainReply) -> None:
        self._over = True

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        if self._left:
            super().begin(status, headers)

    def event(self, event: StreamEvent) -> None:
        if self._left and event.kind not in (EventKind.FINISH, EventKind.USAGE, EventKind.DONE):
            self._left -= 1
            super().event(event)
        else:
            self._over = True


class Lacking(Straight):
    """Events of some kinds never come; what comes after may be missing too, and the stream may stay open."""

    def __init__(
        self, connection: HttpConnection, speed: float | None, kinds: frozenset[EventKind], *, hangs: bool = False
    ) -> None:
        super().__init__(connection, speed)
        self._kinds = kinds
        self._hangs = hangs

    def event(self, event: StreamEvent) -> None:
        if event.kind not in self._kinds:
            super().event(event)

    def end(self) -> None:
        if not self._hangs:
            super().end()


class Stale(Straight):
    """A connection that has served before is closed before any byte, as one that lay idle for too long."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        if not self._closed():
            super().begin(status, headers)

    def plain(self, reply: PlainReply) -> None:
        if not self._closed():
            super().plain(reply)

    def _closed(self) -> bool:
        if self._connection.served:
            self._over = True
            self._connection.close()
        return self._over


class Slow(Straight):
    """Headers at once, a comment a second, and the reply only after a long while."""

    def __init__(self, connection: HttpConnection, speed: float | None) -> None:
        super().__init__(connection, speed)
        self._left = _SLOW_S
        self._held: list[StreamEvent] = []
        self._ends = False

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        super().begin(status, headers)
        self._comment()

    def event(self, event: StreamEvent) -> None:
        if self._left:
            self._held.append(event)
        else:
            super().event(event)

    def end(self) -> None:
        self._ends = True
        if not self._left:
            super().end()

    def _comment(self) -> None:
        if self._left:
            self._left -= 1
            self._connection.chunk(b":\n\n")
            asyncio.get_running_loop().call_later(1.0 / (self._speed or 1e6), self._comment)
            return
        self._connection.events(self._held)
        if self._ends:
            super().end()


class Framed(Straight):
    """Every event in other bytes that mean the same, in one write or several."""

    def __init__(
        self, connection: HttpConnection, speed: float | None, writes: Callable[[bytes, bool], list[bytes]]
    ) -> None:
        super().__init__(connection, speed)
        self._writes = writes
        self._first = True

    def event(self, event: StreamEvent) -> None:
        for part in self._writes(event.data, self._first):
            self._connection.chunk(part)
        self._first = False


class Rewritten(Straight):
    """Every event with another content, streamed or whole."""

    def __init__(self, connection: HttpConnection, speed: float | None, rewrite: Rewrite) -> None:
        super().__init__(connection, speed)
        self._rewrite = rewrite

    def plain(self, reply: PlainReply) -> None:
        if reply.status == 200:
            body = msgspec.json.encode(self._rewrite(msgspec.json.decode(reply.body)))
            reply = PlainReply(status=200, body=body)
        super().plain(reply)

    def event(self, event: StreamEvent) -> None:
        if event.kind is EventKind.DONE:
            super().event(event)
            return
        value = self._rewrite(msgspec.json.decode(event.data.removeprefix(b"data: ")))
        super().event(StreamEvent(event.kind, b"data: " + msgspec.json.encode(value) + b"\n\n"))


class Failing(Straight):
    """After some events an error object, then the end as if nothing had happened."""

    def __init__(self, connection: HttpConnection, speed: float | None) -> None:
        super().__init__(connection, speed)
        self._seen = 0

    def event(self, event: StreamEvent) -> None:
        self._seen += 1
        if self._seen < CUT_AFTER and event.kind is not EventKind.FINISH:
            super().event(event)
            return
        error = {"error": {"message": "CUDA error: an illegal memory access was encountered", "code": 500}}
        self._connection.chunk(b"data: " + msgspec.json.encode(error) + b"\n\ndata: [DONE]\n\n")
        self._over = True
        self._connection.end()
