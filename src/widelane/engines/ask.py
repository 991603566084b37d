"""Plain questions to a server, where no answer is an answer too."""

from __future__ import annotations

from typing import Any

from widelane.errors import (
    CallError,
    ConnectionLost,
    FirstTokenTimeout,
    IdleTimeout,
    MalformedReply,
    StaleConnection,
    TruncatedStream,
)
from widelane.records import Fetch, HttpReply
from widelane.wire.failures import classify

_NO_REPLY = (ConnectionLost, FirstTokenTimeout, IdleTimeout, MalformedReply, TruncatedStream)


async def ask(fetch: Fetch, path: str, body: Any = None, *, timeout_s: float = 10.0) -> HttpReply | None:
    """The reply whatever its status, None when none came in time or it was cut.

    Raises:
        CallError: nobody listens any more.
    """
    method = "GET" if body is None else "POST"
    for _ in range(2):
        try:
            reply = await fetch(method, path, body, timeout_s=timeout_s)
        except StaleConnection:  # the server had dropped the idle connection; it never saw the request
            continue
        except _NO_REPLY:
            return None
        return reply
    return None


async def ask_json(fetch: Fetch, path: str, body: Any = None) -> Any:
    """The decoded body of a 200 reply, None otherwise."""
    reply = await ask(fetch, path, body)
    return reply.json() if reply is not None and reply.status == 200 else None


async def ask_text(fetch: Fetch, path: str) -> str | None:
    """The body of a 200 reply as text, None otherwise."""
    reply = await ask(fetch, path)
    return reply.body.decode("utf-8", "replace") if reply is not None and reply.status == 200 else None


def refusal(reply: HttpReply) -> CallError:
    """The typed error that a refusing reply stands for."""
    return classify(reply.status, reply.headers, reply.body, url=reply.url)


def is_html(reply: HttpReply) -> bool:
    """Whether a reply is a web page."""
    start = reply.body.lstrip()[:15].lower()
    return "html" in reply.headers.get("content-type", "") or start.startswith((b"<!doctype", b"<html"))
