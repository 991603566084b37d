"""A connection inside one process: what one side writes, the other reads in the next turn of the loop. No sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


def connect(
    client: asyncio.BufferedProtocol, server: asyncio.Protocol, loop: asyncio.AbstractEventLoop | None = None
) -> None:
    """Connect the two. Both know it when this returns."""
    loop = loop or asyncio.get_running_loop()
    near, far = MemoryTransport(loop), MemoryTransport(loop)
    near.join(far, _buffered(client), client.connection_lost)
    far.join(near, server.data_received, server.connection_lost)
    server.connection_made(far)
    client.connection_made(near)


class MemoryTransport(asyncio.Transport):
    """One end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._peer: MemoryTransport | None = None
        self._receive: Callable[[bytes], None] = lambda _: None
        self._lost: Callable[[Exception | None], None] = lambda _: None
        self._closing = False

    def join(
        self,
        peer: MemoryTransport,
        receive: Callable[[bytes], None],
        lost: Callable[[Exception | None], None],
    ) -> None:
        """Name the other end, and who reads on this one."""
        self._peer, self._receive, self._lost = peer, receive, lost

    # --- asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing and self._peer is not None and data:
            self._loop.call_soon(self._peer._deliver, bytes(data))

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """What was written arrives, then the other end sees the end."""
        self._end(None)

    def abort(self) -> None:
        """The other end sees a reset."""
        self._end(ConnectionResetError("reset by the other end"))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def pause_reading(self) -> None:
        """Nothing is held back: what arrives has been made already."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    # --- the two ends

    def _deliver(self, data: bytes) -> None:
        if not self._closing:
            self._receive(data)

    def _end(self, seen_as: Exception | None) -> None:
        if self._closing:
            return
        self._closing = True
        self._loop.call_soon(self._lost, None)
        if self._peer is not None:
            self._loop.call_soon(self._peer._peer_ended, seen_as)

    def _peer_ended(self, seen_as: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._lost(seen_as)


def _buffered(protocol: asyncio.BufferedProtocol) -> Callable[[bytes], None]:
    """Hands bytes to a protocol that has a buffer of its own."""

    def receive(data: bytes) -> None:
        view = memoryview(data)
        while view:
            room = memoryview(protocol.get_buffer(len(view)))
            part = view[: len(room)]
            room[: len(part)] = part
            protocol.buffer_updated(len(part))
            view = view[len(part) :]

    return receive
