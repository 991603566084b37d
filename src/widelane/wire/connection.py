"""One HTTP/1.1 connection over asyncio, carrying one exchange at a time.

`buffer_updated` only stamps the bytes and queues them. All that arrived in one turn of the event loop, on whatever
connection, is parsed afterwards in one go: when 128 streams get a token at the same tick, the last one's stamp does not
wait for the parsing of the other 127. Once a stream runs and nobody watches its deltas, parsing may wait for several
ticks (`patient`): a few events read in a row cost much less than each alone, with caches gone cold between two tokens.
The end of a body is never waited with.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Protocol, cast

import httptools

from widelane.clock import Clock
from widelane.errors import CallError, ConnectionLost, MalformedReply, NotAModelServer, StaleConnection
from widelane.wire.content_coding import Decompressor, decompressor_for

IDLE_KEPT_S = 4.0
"""Idle sockets are dropped before the servers do it (uvicorn and llama.cpp: 5 s)."""
_READ_BYTES = 16_384
_END_OF_BODY = b"\r\n\r\n"
"""How the last chunk of a chunked body ends; the events before it end in LF LF CR LF."""
_MAX_HEAD_BYTES = 1 << 20
_SHORT_BYTES = 16
"""No event is shorter than this: what is may be a piece of the end."""
_TAIL_S = 1.0
"""How long the end of a body may take once the reply in it is over, before the connection is given up."""


class Exchange(Protocol):
    """The side of one request that takes the reply. Exactly one of `ended` and `failed` comes last."""

    def sent(self, t_ns: int) -> None:
        """The request's last byte was handed to the socket."""

    def headers(self, status: int, headers: Mapping[str, str], t_ns: int) -> None: ...

    def body(self, data: bytes, t_ns: int) -> None: ...

    def ended(self, t_ns: int) -> None:
        """The body is whole."""

    def failed(self, error: CallError | None, cause: Exception | None = None) -> None:
        """The connection broke (`error`), or reading the reply did (`cause`)."""


class Keeper(Protocol):
    """What keeps connections, as they see it."""

    clock: Clock
    dirty: list[Connection]
    """Connections on which something arrived that is to be parsed in this turn of the loop."""
    later: list[Connection]
    """Connections on which something arrived that can wait a little."""

    @property
    def origin(self) -> str:
        """The server, for messages."""

    def schedule(self) -> None:
        """`dirty` has its first entry: parse in this turn."""

    def postpone(self) -> None:
        """`later` has its first entry: parse within a few ticks."""

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...

    def put(self, connection: Connection) -> None:
        """The connection's reply is whole, and it may be used again."""

    def drop_idle(self) -> None:
        """An idle connection was stale; the others are as old."""


class Connection(asyncio.BufferedProtocol):
    """One socket: idle in the pool, or carrying one exchange.

    A *buffered* protocol, because asyncio reads for a plain one into a fresh 256 KiB block each time: at 128 streams
    that alone costs 30 microseconds of page faults a token.
    """

    def __init__(self, pool: Keeper) -> None:
        self._pool = pool
        self._now_ns = pool.clock.now_ns
        self._dirty = pool.dirty
        self._later = pool.later
        self._due = False
        self.patient = False
        """Set by an exchange that runs and has nobody to tell: what arrives may be parsed a little later."""
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._exchange: Exchange | None = None
        self._buffer = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)
        self._arrived: list[tuple[bytes, int]] = []
        self._reused = False
        self._any_bytes = False
        self._tail: asyncio.TimerHandle | None = None
        self.idle_since_s = 0.0
        self.idle_kept_s = IDLE_KEPT_S
        # What the parser has seen of the message that is being read.
        self._status = 0
        self._head_bytes = 0
        self._headers: dict[str, str] = {}
        self._headers_new = False
        self._until_close = False
        self._complete = False
        self._keep_alive = False
        self._bodies: list[bytes] = []
        self._decompressor: Decompressor | None = None

    def start(self, exchange: Exchange, request: bytes) -> None:
        """Sends the request; what comes back goes to `exchange`."""
        transport = self._transport
        self._exchange = exchange
        self._parser = httptools.HttpResponseParser(self)
        self._any_bytes = False
        self.patient = False
        self._reset_message()
        if transport is None or transport.is_closing():
            self._lose(None)
            return
        transport.write(request)
        exchange.sent(self._now_ns())  # corrected by `resume_writing` when the socket did not take it at once

    def detach(self) -> None:
        """The exchange has what it wanted. The connection is kept if the body ends soon, else closed."""
        self._exchange = None
        if not self._complete:  # else the parser's caller is about to take the connection back
            self._tail = asyncio.get_running_loop().call_later(_TAIL_S, self.abort)

    def abort(self) -> None:
        """Closes at once; the server sees it and frees the slot."""
        self._exchange = None
        self._parser = None
        self._arrived.clear()
        if self._transport is not None:
            self._transport.abort()

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and not self._arrived

    def mark_reused(self) -> None:
        self._reused = True

    # --- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        # `resume_writing` then says when a request that the socket did not take at once is gone.
        transport.set_write_buffer_limits(high=0)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pool.opened(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        t_ns = self._now_ns()
        data = bytes(self._view[:nbytes])
        arrived = self._arrived
        arrived.append((data, t_ns))
        if self.patient and nbytes >= _SHORT_BYTES and not data.endswith(_END_OF_BODY):
            if len(arrived) == 1:
                later = self._later
                if not later:
                    self._pool.postpone()
                later.append(self)
        elif not self._due:
            self._due = True
            dirty = self._dirty
            if not dirty:
                self._pool.schedule()
            dirty.append(self)

    def resume_writing(self) -> None:
        if self._exchange is not None:
            self._exchange.sent(self._now_ns())

    def connection_lost(self, exc: Exception | None) -> None:
        self.drain()
        self._pool.closed(self)
        self._transport = None
        if self._tail is not None:
            self._tail.cancel()
        if self._exchange is not None:
            self._lose(exc)

    # --- reading

    def drain(self) -> None:
        """Parses what has arrived."""
        self._due = False
        arrived = self._arrived
        if not arrived:
            return
        self._arrived = []
        try:
            for data, t_ns in arrived:
                self._parse(data, t_ns)
        except CallError as error:
            self._break(error)
        except Exception as error:  # noqa: BLE001 - an observer's mistake must fail its own call and no other
            self._break(None, error)

    def _parse(self, data: bytes, t_ns: int) -> None:
        parser = self._parser
        if parser is None:
            self.abort()  # bytes that nobody asked for
            return
        self._any_bytes = True
        if not self._status:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                raise MalformedReply(f"The headers from {self._pool.origin} have no end.")
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._unparsable(data, error)
        if self._headers_new:
            self._headers_new = False
            if self._exchange is not None:
                self._exchange.headers(self._status, self._headers, t_ns)
            self._decompressor = decompressor_for(self._headers.get("content-encoding", ""))
        bodies = self._bodies
        if bodies:
            self._bodies = []
            for body in bodies:
                exchange = self._exchange
                if exchange is not None:  # else it had enough
                    exchange.body(body if self._decompressor is None else self._decompressor.feed(body), t_ns)
        if self._complete:
            self._finish(t_ns)

    def _finish(self, t_ns: int) -> None:
        exchange, self._exchange = self._exchange, None
        self._parser = None
        if exchange is not None:
            exchange.ended(t_ns)
        self._recycle()

    def _recycle(self) -> None:
        if self._tail is not None:
            self._tail.cancel()
            self._tail = None
        if self._keep_alive and self.usable:
            self._pool.put(self)
        else:
            self.abort()

    def _unparsable(self, data: bytes, error: Exception) -> None:
        shown = data[:80].decode("latin-1")
        if not self._status:
            raise NotAModelServer(f"What answers at {self._pool.origin} is not HTTP: {shown!r}.") from error
        if self._complete:
            return  # garbage behind a whole reply
        raise MalformedReply(f"The reply from {self._pool.origin} breaks HTTP: {error}.") from error

    def _break(self, error: CallError | None, cause: Exception | None = None) -> None:
        exchange = self._exchange
        self.abort()
        if exchange is not None:
            exchange.failed(error, cause)

    def _lose(self, exc: Exception | None) -> None:
        """The socket is gone while an exchange waits on it."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        if self._status and self._until_close and exc is None:
            exchange.ended(self._now_ns())
            return
        how = f"was reset ({exc})" if exc is not None else "was closed"
        origin = self._pool.origin
        if self._any_bytes:
            exchange.failed(ConnectionLost(f"The connection to {origin} {how} in the middle of the reply."))
        elif self._reused:
            self._pool.drop_idle()
            exchange.failed(StaleConnection(f"The idle connection to {origin} {how} before it could be used again."))
        else:
            exchange.failed(ConnectionLost(f"The connection to {origin} {how} before any byte of a reply."))

    # --- httptools callbacks: they only note what was seen

    def _reset_message(self) -> None:
        self._status = 0
        self._head_bytes = 0
        self._headers = {}
        self._headers_new = False
        self._until_close = False
        self._complete = False
        self._keep_alive = False
        self._bodies = []
        self._decompressor = None

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:  # 100 Continue, 103 Early Hints: the reply proper follows
            self._headers = {}
            return
        self._status = status
        self._headers_new = True
        headers = self._headers
        self._until_close = "content-length" not in headers and "chunked" not in headers.get("transfer-encoding", "")
        self.idle_kept_s = min(IDLE_KEPT_S, _stated_keep_alive_s(headers.get("keep-alive", "")))

    def on_body(self, body: bytes) -> None:
        self._bodies.append(body)

    def on_message_complete(self) -> None:
        self._complete = self._status >= 200
        # The parser forgets it with the message.
        self._keep_alive = self._parser is not None and self._parser.should_keep_alive()


def _stated_keep_alive_s(value: str) -> float:
    """Seconds of `Keep-Alive: timeout=5`, less one for the way; without it, the default."""
    for part in value.split(","):
        name, _, number = part.strip().partition("=")
        if name.lower() == "timeout" and number.strip().isdecimal():
            return max(float(number) - 1.0, 0.0)
    return IDLE_KEPT_S
