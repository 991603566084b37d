"""A plain request on one connection: status, headers and body, whatever they are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from widelane.errors import CallError, MalformedReply
from widelane.records import HttpReply

_MAX_BODY_BYTES = 64 * 2**20


class FetchCall:
    """The exchange of one plain request; `future` gives the reply."""

    def __init__(self, url: str) -> None:
        self.future: asyncio.Future[HttpReply] = asyncio.get_running_loop().create_future()
        self._url = url
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._body = bytearray()

    def sent(self, t_ns: int) -> None:
        """Nothing is timed here."""

    def headers(self, status: int, headers: Mapping[str, str], t_ns: int) -> None:
        self._status = status
        self._headers = headers

    def body(self, data: bytes, t_ns: int) -> None:
        self._body += data
        if len(self._body) > _MAX_BODY_BYTES:
            raise MalformedReply(f"The reply from {self._url} has no end ({len(self._body)} bytes so far).")

    def ended(self, t_ns: int) -> None:
        if not self.future.done():
            self.future.set_result(HttpReply(self._status, self._headers, bytes(self._body), self._url))

    def failed(self, error: CallError | None, cause: Exception | None = None) -> None:
        problem = error or cause
        assert problem is not None
        if not self.future.done():
            self.future.set_exception(problem)
