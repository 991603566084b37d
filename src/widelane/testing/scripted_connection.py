"""One connection of a scripted server: parses requests, one at a time, and writes what a turn says."""

from __future__ import annotations

import asyncio
import contextlib
import http
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import httptools
import msgspec

from widelane.testing.script import Operation, Turn, body_length

_LINGER_ZERO = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Received:
    """One request as the server saw it.

    Attributes:
        turn: index of the turn that answered it; None for a GET that takes none.
        body: decoded JSON, None when there was none or it was not JSON.
        t_s, ended_s: loop time at which it was whole, and at which the server was done with it.
        events_sent: `data:` events written before the end.
        closed_by_client: the client closed the connection before the server was done.
        connection: number of the connection it came on.
    """

    turn: int | None
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    t_s: float
    connection: int
    ended_s: float | None = None
    events_sent: int = 0
    closed_by_client: bool = False


@dataclass(slots=True)
class ConnectionLog:
    """What happened on one connection: (loop time, word), e.g. `opened`, `request`, `end`, `fin`, `closed`."""

    number: int
    events: list[tuple[float, str]] = field(default_factory=list)


class Host(Protocol):
    """The server that a connection belongs to."""

    def opened(self, connection: ScriptedConnection) -> ConnectionLog: ...

    def closed(self, connection: ScriptedConnection) -> None: ...

    def answer(self, connection: ScriptedConnection, request: Received) -> asyncio.Task[None]: ...


class ScriptedConnection(asyncio.Protocol):
    """One client connection: parses requests, one at a time, and writes what the turn says."""

    def __init__(self, host: Host) -> None:
        self.over = False
        self.lost = False
        self.busy_after_close_s = 0.0
        self._host = host
        self._turn: Turn = ()
        self._chunked: bool | None = None
        self._keep_alive = True
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._reset()

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._log = self._host.opened(self)
        self._note("opened")

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._note("not-http")
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._note("closed")
        self._host.closed(self)
        self._writable.set()
        if self._task is not None and not self._task.done():
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # --- httptools

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        try:
            body = msgspec.json.decode(self._body) if self._body else None
        except msgspec.DecodeError:
            body = None
        method = self._parser.get_method().decode()
        self._keep_alive = self._parser.should_keep_alive()
        path = self._url.decode("latin-1").partition("?")[0]
        now_s = asyncio.get_running_loop().time()
        request = Received(None, method, path, self._headers, body, now_s, self._log.number)
        self._note("request")
        self._reset()
        self._task = self._host.answer(self, request)

    def _reset(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = b""

    # --- what a turn does

    def begin(self, turn: Turn) -> None:
        """A turn starts on this connection."""
        self._turn = turn
        self._chunked = None
        self.over = False

    async def perform(self, name: str, operation: Operation) -> None:
        """An operation that concerns only this connection."""
        actions: dict[str, Callable[[], None]] = {"end": self._end, "fin": self._fin, "rst": self._rst}
        if name == "status":
            await self._status(operation)
        elif name == "hang":
            await self.hang()
        elif name == "client_closes_then_busy":
            self.busy_after_close_s = float(operation["s"])
        else:
            self._note(name)
            actions[name]()

    async def _status(self, operation: Operation) -> None:
        headers = {name.lower(): str(value) for name, value in (operation.get("headers") or {}).items()}
        if headers.get("connection", "").lower() == "close":
            self._keep_alive = False
        if not {"content-length", "transfer-encoding"} & headers.keys():
            length = body_length(self._turn, headers)
            self._chunked = length is None
            headers |= {"transfer-encoding": "chunked"} if length is None else {"content-length": str(length)}
        code = int(operation["code"])
        reason = http.HTTPStatus(code).phrase if code in http.HTTPStatus._value2member_map_ else "Unknown"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await self._raw(f"HTTP/1.1 {code} {reason}\r\n{lines}\r\n".encode("latin-1"))

    async def write(self, data: bytes) -> None:
        """One write of body bytes; raw bytes when no status was sent."""
        if data:
            await self._raw(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def _raw(self, data: bytes) -> None:
        self._transport.write(data)
        await self._writable.wait()
        # Two turns of the loop, so that the peer in this loop reads this write on its own.
        for _ in range(3):
            await asyncio.sleep(0)

    def _end(self) -> None:
        self.over = True
        if self._chunked:
            self._transport.write(b"0\r\n\r\n")
        if not self._keep_alive:
            self._transport.close()

    def _fin(self) -> None:
        self.over = True
        self._transport.close()

    def _rst(self) -> None:
        self.over = True
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self._transport.abort()

    async def hang(self) -> None:
        """Send nothing more until the client closes (which cancels the turn)."""
        self._note("hang")
        await asyncio.Event().wait()

    def drop(self) -> None:
        """The server dies: an idle connection is closed, one with a request under way is reset."""
        if self._task is None or self._task.done() or self.over:
            self._transport.close()
        else:
            self._rst()

    def abort(self) -> None:
        """Close at once, at the end of the test."""
        with contextlib.suppress(OSError):
            self._transport.abort()

    def _note(self, word: str) -> None:
        self._log.events.append((asyncio.get_running_loop().time(), word))
