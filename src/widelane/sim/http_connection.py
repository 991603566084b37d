"""One HTTP/1.1 connection of the simulated server: parses requests, one at a time, and writes their replies.

The same protocol runs on a socket and on a pipe in memory.
"""

from __future__ import annotations

import asyncio
import http
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import httptools

from widelane.sim.refusal import PlainReply
from widelane.sim.reply_form import StreamEvent

MOST_BODY_BYTES = 64 * 2**20
_LINGER_ZERO = struct.pack("ii", 1, 0)


class Serving(Protocol):
    """A reply under way."""

    def abandon(self) -> None:
        """The client is gone."""
        ...


class Host(Protocol):
    """The server that a connection belongs to."""

    @property
    def server_header(self) -> str: ...

    def opened(self, connection: HttpConnection) -> None: ...

    def closed(self, connection: HttpConnection) -> None: ...

    def answer(self, connection: HttpConnection, method: str, path: str, body: bytes) -> Serving | None:
        """Begin the reply to a request; None when it is written already."""
        ...


class HttpConnection(asyncio.Protocol):
    """One client.

    Attributes:
        served: requests answered on it before the one that runs.
    """

    def __init__(self, host: Host) -> None:
        self.served = 0
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._serving: Serving | None = None
        self._busy = False
        self._waiting: list[tuple[str, str, bytes, bool]] = []
        self._keep_alive = True
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = bytearray()

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host.opened(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse(400)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._waiting.clear()
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.abandon()
        self._host.closed(self)

    # --- httptools

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body
        if len(self._body) > MOST_BODY_BYTES:
            self._refuse(413)

    def on_message_complete(self) -> None:
        method, path = self._parser.get_method().decode(), self._url.decode("latin-1")
        request = (method, path, bytes(self._body), self._parser.should_keep_alive())
        self._url, self._body = b"", bytearray()
        if self._busy:
            self._waiting.append(request)
        else:
            self._answer(*request)

    # --- replies

    def plain(self, reply: PlainReply) -> None:
        """A reply with one body."""
        length = {"content-length": str(len(reply.body))}
        self._write(self._head(reply.status, {"content-type": reply.content_type, **reply.headers, **length}))
        self._write(reply.body)
        self._done()

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Status and headers of a body whose length is not known."""
        self._write(self._head(status, {**headers, "transfer-encoding": "chunked"}))

    def events(self, events: Sequence[StreamEvent]) -> None:
        """Events of a stream, in one write."""
        if events:
            self.chunk(b"".join(event.data for event in events))

    def chunk(self, data: bytes) -> None:
        """A piece of a body."""
        if data:
            self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        """The body ends properly."""
        self._write(b"0\r\n\r\n")
        self._done()

    def close(self) -> None:
        """Close without another byte (FIN)."""
        self._serving = None
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Reset (RST)."""
        self._serving = None
        if self._transport is None:
            return
        raw = self._transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self._transport.abort()

    def drop(self) -> None:
        """The server dies: an idle connection is closed, one with a reply under way is reset."""
        if self._busy:
            serving = self._serving
            self.reset()
            if serving is not None:
                serving.abandon()
        else:
            self.close()

    # --- inside

    def _answer(self, method: str, path: str, body: bytes, keep_alive: bool) -> None:
        self._busy, self._keep_alive = True, keep_alive
        try:
            serving = self._host.answer(self, method, path, body)
        except Exception as error:  # noqa: BLE001 - as servers do: this client gets a 500, it is told, others go on
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": f"no reply to {method} {path[:80]!r}", "exception": error})
            self._refuse(500)
            return
        if self._busy:
            self._serving = serving
        elif serving is not None:
            serving.abandon()

    def _done(self) -> None:
        self._busy = False
        self._serving = None
        self.served += 1
        if not self._keep_alive:
            self.close()
        elif self._waiting:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        if self._waiting and not self._busy and self._transport is not None:
            self._answer(*self._waiting.pop(0))

    def _head(self, status: int, headers: Mapping[str, str]) -> bytes:
        known = http.HTTPStatus._value2member_map_
        reason = http.HTTPStatus(status).phrase if status in known else "Unknown"
        lines = [f"HTTP/1.1 {status} {reason}", f"server: {self._host.server_header}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _refuse(self, status: int) -> None:
        self._keep_alive = False
        self._write(self._head(status, {"content-length": "0", "connection": "close"}))
        self.close()
