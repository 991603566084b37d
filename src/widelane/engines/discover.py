"""Which model server runs on this machine, at the ports that servers use when nobody says otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from widelane.engines.ask import is_html
from widelane.errors import CallError
from widelane.records import HttpReply
from widelane.wire.client import HttpBackend

USUAL_PORTS = {"llama.cpp": 8080, "vLLM": 8000, "Ollama": 11434, "LM Studio": 1234, "SGLang": 30000}
"""In the order they are looked at."""

Ask = Callable[[str], Awaitable[HttpReply]]
"""Asks the server at a URL for `/v1/models`; raises `CallError` when there is none."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that answers. `usual_for` is whose usual port it is, not what runs there."""

    url: str
    usual_for: str


async def find_local(ask: Ask | None = None, *, host: str = "127.0.0.1", timeout_s: float = 1.0) -> LocalServer | None:
    """The first usual port with a model server behind it, None when there is none.

    A port that answers with a web page, or has no `/v1/models`, is another program's.
    """
    asking = ask or _over_http(timeout_s)
    for engine, port in USUAL_PORTS.items():
        url = f"http://{host}:{port}"
        try:
            reply = await asking(url)
        except CallError:
            continue
        if _is_model_server(reply):
            return LocalServer(url, engine)
    return None


def nothing_found() -> str:
    """One sentence that says how to go on when no server was found."""
    ports = ", ".join(f"{engine} {port}" for engine, port in USUAL_PORTS.items())
    return f"no model server answers at the usual local ports ({ports}): give its URL, or `embedded` to start one"


def _over_http(timeout_s: float) -> Ask:
    async def ask(url: str) -> HttpReply:
        async with HttpBackend(url) as backend:
            return await backend.fetch("GET", "/v1/models", timeout_s=timeout_s)

    return ask


def _is_model_server(reply: HttpReply) -> bool:
    """It lists models, wants a key for that, or is still loading."""
    if is_html(reply):
        return False
    body: Any = reply.json()
    if reply.status == 200:
        return isinstance(body, dict) and isinstance(body.get("data"), list)
    return reply.status == 401 or (reply.status == 503 and b"oading" in reply.body)
