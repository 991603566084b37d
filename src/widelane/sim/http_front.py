"""The simulated server behind a real port."""

from __future__ import annotations

import asyncio
import socket
from types import TracebackType
from typing import Self

from widelane.errors import UsageError
from widelane.sim.app import SimApp
from widelane.sim.http_connection import HttpConnection


class HttpFront:
    """A listening socket for a `SimApp`; an async context manager.

    Attributes:
        port: the one that was given, or that the system chose.
    """

    def __init__(self, app: SimApp, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.port = port
        self._app = app
        self._host = host
        self._listener: asyncio.Server | None = None
        self._reopening: asyncio.Task[None] | None = None
        app.on_outage = self._refuse

    @property
    def url(self) -> str:
        """The server's root."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        """Raises:
        UsageError: the port cannot be listened on.
        """
        await self._listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reopening is not None:
            self._reopening.cancel()
            await asyncio.gather(self._reopening, return_exceptions=True)
        self._close()
        self._app.close()
        await asyncio.sleep(0)  # lets the transports close their sockets

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(
                lambda: HttpConnection(self._app), self._host, self.port, backlog=1024
            )
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"cannot listen on {self._host}:{self.port}: {reason}; name another --port") from None
        bound: socket.socket = self._listener.sockets[0]
        self.port = bound.getsockname()[1]

    def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _refuse(self, seconds: float) -> None:
        """Listen no more for a while."""
        self._close()
        if self._reopening is not None:
            self._reopening.cancel()
        self._reopening = asyncio.get_running_loop().create_task(self._reopen(seconds))

    async def _reopen(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._listen()
