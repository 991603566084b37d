"""Whether a server that has just been started answers: one plain GET, no client."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

ANSWER_LIMIT_S: Final = 5.0
"""A server that is busy loading may take a connection and say nothing."""
STATUS_LINE_BYTES: Final = 64


async def is_healthy(url: str, path: str = "/health") -> bool:
    """Whether `GET path` at `url` (its root) is answered with 200 within five seconds."""
    address = urlsplit(url)
    try:
        async with asyncio.timeout(ANSWER_LIMIT_S):
            return await _answers(address.hostname or "", address.port or 80, address.netloc, path)
    except (TimeoutError, OSError):
        return False


async def _answers(host: str, port: int, netloc: str, path: str) -> bool:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {netloc}\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        status_line = await reader.read(STATUS_LINE_BYTES)
    finally:
        writer.close()
    return b" 200 " in status_line.split(b"\r\n")[0] + b" "
