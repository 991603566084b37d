"""Looking for a server at the usual local ports."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from widelane.engines.discover import Ask, LocalServer, find_local, nothing_found
from widelane.errors import ConnectionRefused
from widelane.records import HttpReply

LISTS = HttpReply(200, {"content-type": "application/json"}, b'{"data":[{"id":"m"}]}')
WEB_PAGE = HttpReply(200, {"content-type": "text/html"}, b"<html></html>")
WANTS_KEY = HttpReply(401, {}, b'{"error":"no"}')
LOADING = HttpReply(503, {}, b'{"error":{"message":"Loading model"}}')
OTHER_JSON = HttpReply(200, {}, b'{"status":"ok"}')


def machine(ports: Mapping[int, HttpReply]) -> Ask:
    async def ask(url: str) -> HttpReply:
        reply = ports.get(int(url.rsplit(":", 1)[1]))
        if reply is None:
            raise ConnectionRefused(url)
        return reply

    return ask


@pytest.mark.parametrize(
    ("ports", "found"),
    [
        ({}, None),
        ({8080: LISTS, 8000: LISTS}, LocalServer("http://127.0.0.1:8080", "llama.cpp")),
        ({8080: WEB_PAGE, 11434: LISTS}, LocalServer("http://127.0.0.1:11434", "Ollama")),
        ({8080: OTHER_JSON, 1234: WANTS_KEY}, LocalServer("http://127.0.0.1:1234", "LM Studio")),
        ({8000: LOADING}, LocalServer("http://127.0.0.1:8000", "vLLM")),
        ({30000: LISTS}, LocalServer("http://127.0.0.1:30000", "SGLang")),
    ],
)
async def test_the_first_model_server_is_taken(ports: dict[int, HttpReply], found: LocalServer | None) -> None:
    assert await find_local(machine(ports)) == found


def test_nothing_found_says_how_to_go_on() -> None:
    assert "8080" in nothing_found() and "`embedded`" in nothing_found()
