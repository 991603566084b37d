"""The pool of HTTP connections to one server, and a request as bytes. No limit on how many connections."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Mapping

from widelane.clock import Clock
from widelane.errors import CallError, ConnectionLost, ConnectionRefused, NotAModelServer, OpenFilesLimit
from widelane.wire.address import Address
from widelane.wire.connection import IDLE_KEPT_S, Connection

PATIENCE_S = 0.1
"""How long arrived events of a running stream may wait to be parsed, when nobody watches them."""
_AT_ONCE = 8
"""Connections parsed in one turn of the loop, of those that can wait."""


Dial = Callable[[asyncio.BufferedProtocol], None]
"""Connects a client's protocol to a server in this process. Raises OSError where nobody listens."""


class ConnectionPool:
    """Connections to one server: made when needed, kept while warm."""

    def __init__(
        self,
        address: Address,
        clock: Clock,
        *,
        connect_s: float | None,
        tls: ssl.SSLContext | None,
        dial: Dial | None = None,
    ) -> None:
        self._dial = dial
        self.address = address
        self.clock = clock
        self.dirty: list[Connection] = []
        self.later: list[Connection] = []
        self._connect_s = connect_s
        self._tls = tls
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._hosts: tuple[str, ...] = address.ip_literals
        self._sweeper: asyncio.TimerHandle | None = None
        self._all_closed: asyncio.Future[None] | None = None

    @property
    def origin(self) -> str:
        return self.address.origin

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

    def postpone(self) -> None:
        asyncio.get_running_loop().call_later(PATIENCE_S, self._drain_some)

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

    def _drain_some(self) -> None:
        """A few of those that can wait, and the others in the next turns: bytes that arrive meanwhile are stamped."""
        later = self.later
        for connection in later[:_AT_ONCE]:
            connection.drain()
        del later[:_AT_ONCE]
        if later:
            asyncio.get_running_loop().call_soon(self._drain_some)

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
        if self._dial is not None:
            return self._dialled(self._dial)
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
                connection.abort()
                self.closed(connection)
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

    def _dialled(self, dial: Dial) -> Connection:
        connection = Connection(self)
        try:
            dial(connection)
        except OSError as error:
            raise _connect_error(self.address, error) from error
        return connection

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
