"""HTTP/1.1 over asyncio: connections, and the pool that keeps them. No limit on how many.

`buffer_updated` only stamps the bytes and queues them. All that arrived in one turn of the event loop, on whatever
connection, is parsed afterwards in one go: when 128 streams get a token at the same tick, the last one's stamp does not
wait for the parsing of the other 127.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Mapping
from typing import Protocol, cast

import httptools

from widelane.clock import Clock
from widelane.errors import (
    CallError,
    ConnectionLost,
    ConnectionRefused,
    MalformedReply,
    NotAModelServer,
    OpenFilesLimit,
    StaleConnection,
)
from widelane.wire.address import Address
from widelane.wire.content_coding import Decompressor, decompressor_for

IDLE_KEPT_S = 4.0
"""Idle sockets are dropped before the servers do it (uvicorn and llama.cpp: 5 s)."""
_READ_BYTES = 16_384
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


class Connection(asyncio.BufferedProtocol):
    """One socket: idle in the pool, or carrying one exchange.

    A *buffered* protocol, because asyncio reads for a plain one into a fresh 256 KiB block each time: at 128 streams
    that alone costs 30 microseconds of page faults a token.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._now_ns = pool.clock.now_ns
        self._dirty = pool.dirty
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
        arrived = self._arrived
        if not arrived:
            dirty = self._dirty
            if not dirty:
                self._pool.schedule()
            dirty.append(self)
        arrived.append((bytes(self._view[:nbytes]), t_ns))

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
            raise NotAModelServer(f"What answers at {self._pool.address.origin} is not HTTP: {shown!r}.") from error
        if self._complete:
            return  # garbage behind a whole reply
        raise MalformedReply(f"The reply from {self._pool.address.origin} breaks HTTP: {error}.") from error

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
        origin = self._pool.address.origin
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


class ConnectionPool:
    """Connections to one server: made when needed, kept while warm."""

    def __init__(self, address: Address, clock: Clock, *, connect_s: float | None, tls: ssl.SSLContext | None) -> None:
        self.address = address
        self.clock = clock
        self.dirty: list[Connection] = []
        self._connect_s = connect_s
        self._tls = tls
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._hosts: tuple[str, ...] = address.ip_literals
        self._sweeper: asyncio.TimerHandle | None = None
        self._all_closed: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<ConnectionPool {self.address.origin} open={len(self._open)} idle={len(self._idle)}>"

    async def acquire(self) -> Connection:
        """A connection for one exchange: a warm one, else a new one.

        Raises:
            CallError: none could be made.
        """
        now_s = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()  # the one used last is the least likely to be stale
            if connection.usable and now_s - connection.idle_since_s < connection.idle_kept_s:
                connection.mark_reused()
                return connection
            connection.abort()
        return await self._connect()

    def put(self, connection: Connection) -> None:
        """Takes back a connection whose reply is whole."""
        loop = asyncio.get_running_loop()
        connection.idle_since_s = loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(IDLE_KEPT_S, self._sweep)

    def drop_idle(self) -> None:
        """Closes every idle connection: one was stale, the others are as old."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()

    async def aclose(self) -> None:
        """Closes every connection, and waits until the sockets are gone."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._idle.clear()
        for connection in list(self._open):
            connection.abort()
        if self._open:
            self._all_closed = asyncio.get_running_loop().create_future()
            await self._all_closed

    # --- what the connections call

    def schedule(self) -> None:
        asyncio.get_running_loop().call_soon(self._drain)

    def opened(self, connection: Connection) -> None:
        self._open.add(connection)

    def closed(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._all_closed is not None and not self._open and not self._all_closed.done():
            self._all_closed.set_result(None)

    def _drain(self) -> None:
        dirty = self.dirty[:]
        self.dirty.clear()
        for connection in dirty:
            connection.drain()

    def _sweep(self) -> None:
        self._sweeper = None
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        old = [connection for connection in self._idle if now_s - connection.idle_since_s >= connection.idle_kept_s]
        self._idle = [connection for connection in self._idle if connection not in old]
        for connection in old:
            connection.abort()
        if self._idle:
            oldest_s = min(connection.idle_since_s for connection in self._idle)
            self._sweeper = loop.call_later(max(oldest_s + IDLE_KEPT_S - now_s, 0.05), self._sweep)

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        address = self.address
        problem: CallError | None = None
        for host in await self._resolve():
            connection = Connection(self)
            try:
                async with asyncio.timeout(self._connect_s):
                    await loop.create_connection(
                        lambda made=connection: made,
                        host,
                        address.port,
                        ssl=self._tls,
                        server_hostname=address.host if self._tls else None,
                    )
            except asyncio.CancelledError:
                # The socket may have been connected meanwhile, and uvloop then never says that it is closed.
                connection.abort()
                self.closed(connection)
                raise
            except TimeoutError:
                problem = ConnectionRefused(
                    f"{address.origin} does not answer: no connection within {self._connect_s} s."
                )
            except OSError as error:
                problem = _connect_error(address, error)
                if isinstance(problem, OpenFilesLimit | NotAModelServer):
                    break
            else:
                return connection
        if not address.ip_literals:
            self._hosts = ()  # the name may have moved
        assert problem is not None
        raise problem

    async def _resolve(self) -> tuple[str, ...]:
        """The server's IP addresses, looked up once: a look-up for each of 512 connections is a thread each."""
        if not self._hosts:
            loop = asyncio.get_running_loop()
            try:
                found = await loop.getaddrinfo(self.address.host, self.address.port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                raise ConnectionRefused(
                    f"The host name {self.address.host!r} cannot be resolved: {error}.", hint="Check the address."
                ) from error
            self._hosts = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
        return self._hosts


def request_bytes(method: str, path: str, address: Address, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """One request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {address.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + (body or b"")


def _connect_error(address: Address, error: OSError) -> CallError:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return OpenFilesLimit(
            "No more connections: the limit for open files is reached.",
            hint="Raise it (ulimit -n), or use a smaller width.",
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return NotAModelServer(
            f"The certificate of {address.origin} is not trusted: {error.verify_message}.",
            hint="Add its authority to the system's certificates, or use http:// on a trusted network.",
        )
    if isinstance(error, ssl.SSLError):
        return NotAModelServer(f"{address.origin} does not speak TLS ({error.reason}).", hint="Try http:// instead.")
    if isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return ConnectionLost(f"{address.origin} closed the connection while it was being made: {error}.")
    reason = error.strerror or str(error)
    return ConnectionRefused(
        f"Nobody answers at {address.origin}: {reason}.", hint="Is the server running, on this port?"
    )


def _stated_keep_alive_s(value: str) -> float:
    """Seconds of `Keep-Alive: timeout=5`, less one for the way; without it, the default."""
    for part in value.split(","):
        name, _, number = part.strip().partition("=")
        if name.lower() == "timeout" and number.strip().isdecimal():
            return max(float(number) - 1.0, 0.0)
    return IDLE_KEPT_S
