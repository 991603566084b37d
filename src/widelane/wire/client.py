"""The backend that talks to a real server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from widelane.clock import Clock, SystemClock
from widelane.errors import (
    BadRequest,
    CallError,
    FirstTokenTimeout,
    ModelNotFound,
    StaleConnection,
    UnsupportedParameter,
    UsageError,
)
from widelane.records import ChatRequest, HttpReply, Observer, Reply
from widelane.wire.address import parse_address
from widelane.wire.assemble import ReplyAssembler
from widelane.wire.failures import classify
from widelane.wire.fetch_call import FetchCall
from widelane.wire.http import ConnectionPool, Dial, request_bytes
from widelane.wire.judge import judge, prompt_chars
from widelane.wire.limits import Limits
from widelane.wire.request_body import encode_body, request_fields
from widelane.wire.stream_call import StreamCall

_CHARS_PER_TOKEN = 4
_UNSTATED_OUTPUT_TOKENS = 4096
_MODELS_S = 30.0
_LISTED_MODELS = 20


class HttpBackend:
    """One OpenAI-compatible server.

    Args:
        base_url: with or without `/v1`; a key may stand in it (`http://:KEY@host`).
        model: what to ask for when a request names none; None: the first that `/v1/models` lists.
        tls: for https with an authority of one's own; None: the system's certificates.
        dial: connects to a server in this process instead of to the address, which then only names it.

    As many connections are open as calls are running; `open_files.raise_open_files_limit` makes room for them.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
        clock: Clock | None = None,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        dial: Dial | None = None,
    ) -> None:
        self._address = parse_address(base_url)
        self._clock = clock or SystemClock()
        self._limits = limits or Limits()
        self._key = _usable_key(api_key or self._address.api_key)
        self._model = model
        self._models_lock = asyncio.Lock()
        self._asked_models = False
        self._include_usage = True
        self._in_flight = 0
        self._tls = (tls or ssl.create_default_context()) if self._address.tls else None
        self._dial = dial
        self._pool: ConnectionPool | None = None

    def __repr__(self) -> str:
        return f"<HttpBackend {self.url}>"

    @property
    def root_url(self) -> str:
        """The server's root, without `/v1`, without a key and without a slash at the end."""
        return self._address.origin + self._address.root_path

    @property
    def url(self) -> str:
        """The base of the OpenAI protocol, usually `root_url` + `/v1`."""
        return self._address.origin + self._address.api_path

    @property
    def in_flight(self) -> int:
        """Calls running now."""
        return self._in_flight

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes every connection. Calls still running fail."""
        if self._pool is not None:
            await self._pool.aclose()
            self._pool = None

    async def complete(self, request: ChatRequest, observe: Observer | None = None) -> Reply:
        """The whole reply to one call; one attempt. See `records.Backend`.

        `StaleConnection` means that a warm connection turned out closed: nothing was seen by the server, send again.

        Raises:
            CallError: the call failed, or (unless `request.raw`) the reply is no usable answer.
            UsageError: the request cannot be sent as it is; nothing was sent.
        """
        model = request.model or self._model or await self._first_model()
        self._in_flight += 1
        try:
            reply = await self._attempt(request, model, observe)
        except ModelNotFound as error:
            raise await self._with_models(error, model) from error.__cause__
        finally:
            self._in_flight -= 1
        problem = None if request.raw else judge(request, reply)
        if problem is not None:
            raise problem
        return reply

    async def fetch(self, method: str, path: str, body: Any = None, *, timeout_s: float = 10.0) -> HttpReply:
        """A plain request, for facts and probes. See `records.Fetch`; the path is relative to `root_url`.

        Raises:
            CallError: no reply came.
        """
        encoded = body if isinstance(body, bytes) or body is None else encode_body(body)
        url = self.root_url + path
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    return await self._fetch_once(method, path, encoded, url)
                except StaleConnection:
                    return await self._fetch_once(method, path, encoded, url)
        except TimeoutError:
            raise FirstTokenTimeout(f"No reply to {method} {url} within {timeout_s:g} s.") from None

    # --- one call

    async def _attempt(self, request: ChatRequest, model: str | None, observe: Observer | None) -> Reply:
        include_usage = self._include_usage and request.stream
        try:
            return await self._send(request, model, observe, include_usage=include_usage)
        except (UnsupportedParameter, BadRequest) as error:
            refused = getattr(error, "param", "") == "stream_options" or "stream_options" in error.message
            if not (include_usage and refused) or "stream_options" in request.extra:
                raise
        self._include_usage = False  # an old server: its tokens are counted from now on
        return await self._send(request, model, observe, include_usage=False)

    async def _send(
        self, request: ChatRequest, model: str | None, observe: Observer | None, *, include_usage: bool
    ) -> Reply:
        body = encode_body(request_fields(request, model, include_usage=include_usage))
        endpoint = "/completions" if request.prompt is not None else "/chat/completions"
        accept = "text/event-stream" if request.stream else "application/json"
        message = request_bytes("POST", self._address.api_path + endpoint, self._address, self._headers(accept), body)
        connection = await self._connections().acquire()
        call = StreamCall(
            ReplyAssembler(request, observe),
            connection,
            self._limits,
            first_token_s=self._first_token_s(request),
            url=self.url + endpoint,
            wall_s=self._clock.wall_s(),
        )
        connection.start(call, message)
        try:
            return await call.future
        except asyncio.CancelledError:
            call.cancel()
            raise

    def _first_token_s(self, request: ChatRequest) -> float | None:
        tokens = request.prompt_tokens_estimate
        estimate = tokens if tokens is not None else prompt_chars(request) / _CHARS_PER_TOKEN
        whole = 0 if request.stream else (request.max_tokens or _UNSTATED_OUTPUT_TOKENS) * request.n
        return self._limits.until_first_token_s(estimate, self._in_flight - 1, whole)

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept, "Accept-Encoding": "identity", "User-Agent": "widelane"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    async def _fetch_once(self, method: str, path: str, body: bytes | None, url: str) -> HttpReply:
        message = request_bytes(method, self._address.root_path + path, self._address, self._headers("*/*"), body)
        connection = await self._connections().acquire()
        call = FetchCall(url)
        connection.start(call, message)
        try:
            return await call.future
        except asyncio.CancelledError:
            connection.abort()
            raise

    def _connections(self) -> ConnectionPool:
        if self._pool is None:
            self._pool = ConnectionPool(
                self._address, self._clock, connect_s=self._limits.connect_s, tls=self._tls, dial=self._dial
            )
        return self._pool

    # --- models

    async def _first_model(self) -> str | None:
        """The first model the server lists; asked once. None when it lists none: the field is then left out."""
        async with self._models_lock:
            if not self._asked_models:
                reply = await self._list_models()
                if reply.status in (401, 403, 429, 503):
                    raise classify(reply.status, reply.headers, reply.body, url=reply.url, wall_s=self._clock.wall_s())
                names = _model_names(reply)
                self._model = names[0] if names else None
                self._asked_models = reply.status == 200
        return self._model

    async def _list_models(self) -> HttpReply:
        path = self._address.api_path.removeprefix(self._address.root_path) + "/models"
        return await self.fetch("GET", path, timeout_s=_MODELS_S)

    async def _with_models(self, error: ModelNotFound, model: str | None) -> ModelNotFound:
        """The error, with what the server does have."""
        try:
            names = _model_names(await self._list_models())
        except CallError:
            names = []
        if names:
            listed = ", ".join(names[:_LISTED_MODELS]) + (", …" if len(names) > _LISTED_MODELS else "")
            hint = f"The server has: {listed}."
        else:
            hint = f"{self.url}/models lists no model."
        told = ModelNotFound(error.message, status=error.status, partial=error.partial, hint=hint)
        told.__suppress_context__ = True
        return told


def _model_names(reply: HttpReply) -> list[str]:
    value = reply.json() if reply.status == 200 else None
    entries = value.get("data") if isinstance(value, Mapping) else None
    if not isinstance(entries, list):
        return []
    return [entry["id"] for entry in entries if isinstance(entry, Mapping) and isinstance(entry.get("id"), str)]


def _usable_key(key: str | None) -> str | None:
    """The key without the line end of the file it came from.

    Raises:
        UsageError: it cannot stand in a header.
    """
    if key is None:
        return None
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError("the API key holds characters that cannot stand in a header; check where it was copied from")
    return key or None
