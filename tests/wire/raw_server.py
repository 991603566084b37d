"""A server that answers every connection's first bytes with fixed bytes, whatever they are."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class _Answer(asyncio.Protocol):
    def __init__(self, data: bytes, opened: list[asyncio.Transport]) -> None:
        self._data = data
        self._opened = opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._opened.append(transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._data)


@asynccontextmanager
async def answering(data: bytes, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The server's `host:port`."""
    opened: list[asyncio.Transport] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Answer(data, opened), "127.0.0.1", 0, ssl=tls)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for transport in opened:
            transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)  # the transports close their sockets
